"""`regard embed`."""

from pathlib import Path

import click

from regard.cli import options as shared
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import (
    Place,
    path_of,
    refuse_half_a_job,
    run,
    shard_options,
    table_or_job_output,
)
from regard.cli.table_output import table_of_output, write_table
from regard.cli.text_command import check_text, chunks_of, input_option, lines_of, text_argument, write_output
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import EmbeddingOptions, ShardOptions


@click.command("embed", cls=Command)
@text_argument(several=True)
@shared.own_model
@input_option("Embed each line of a file")
@table_or_job_output
@shard_options
@click.option(
    "--images",
    type=shared.FILE_PATH,
    multiple=True,
    metavar="FILE",
    help="Embed an image, each image of a folder, or of an IDX or NPZ file, by an image-text model (CLIP);"
    " files may follow: --images a.jpg b.jpg.",
)
@click.option(
    "--similar-to",
    metavar="TEXT",
    help="Rank the lines by their similarity to TEXT: SIMILARITY, LINE, TEXT, separated by tabs. With images:"
    " SIMILARITY, IMAGE.",
)
@shared.fields_of("options", EmbeddingOptions)
@shared.as_json
@shared.runtime
def command(
    text: tuple[str, ...],
    model: Path,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    images: tuple[Path, ...],
    similar_to: str | None,
    options: EmbeddingOptions,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Turn each text, or each line of a file or of standard input, into a vector.

    Without TEXT and --input standard input is read. Each line of input gives a line of output, the numbers of
    its vector, separated by tabs, in the same order. A sentence encoder pools as its configuration specifies;
    the vector of another encoder is the normalised mean of its token states. With --similar-to all lines are
    read first, and printed with their cosine similarity, the most similar first.

    An image-text model (CLIP) also embeds images, with --images. Vectors of its texts and images have length
    1, and can be compared with each other: --images FILE --similar-to TEXT ranks images by a text. A FILE is
    an image (PNG, JPEG, WebP, GIF, BMP), a folder of them, which is read with the folders in it, or an IDX
    file, or an NPZ file with an array `images`. The line of an image that is a file begins with its name.

    With --column and --output FILE.csv the table is written with one more column, `vector`: a list of numbers
    as JSON writes it.
    """
    if images and (input is not None or output is not None or sharding.is_job):
        raise UserError("--images embeds images, and nothing else", "leave out --input and --output")
    check_text(text, input)
    if input is not None and str(input).endswith(".npz"):
        raise UserError(f"{input}: --input is a file of lines", f"give images with --images {input}")
    refuse_half_a_job(sharding, text=bool(text), input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json)
    if (sharding.is_job or table is not None) and similar_to is not None:
        raise UserError(
            "--similar-to compares all lines, but --shard, --on and --output answer each alone",
            "leave one of them out",
        )

    with importing():
        from regard.verbs import embed_images
        from regard.verbs.embed import Embedder, cells_of, output_lines
        from regard.verbs.shards import embed_shard

    if sharding.is_job:
        settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
        run(embed_shard, sharding, output, input=input, **settings)
        return
    if images:
        image_embedder = embed_images.ImageEmbedder(model, runtime=runtime)
        files = [*map(str, images), *text]
        found = image_embedder(files) if len(files) > 1 else image_embedder.file(files[0])
        found = found if similar_to is None else image_embedder.similar(found, similar_to)
        write_output(embed_images.output_lines(each, as_json=as_json) for each in found)
        return
    embed_images.refuse_image_files(text)
    embedder = Embedder(model, options=options, runtime=runtime)
    if table is not None and sharding.column is not None:
        names = [sharding.into or "vector"]
        write_table(embedder, cells_of, names, (input, output), sharding.column, table)
        return
    lines = [line for each in text for line in lines_of(each)] if text else None
    embedded = embedder.in_chunks(
        chunks_of(lines, path_of(input), "type a line to embed it", column=sharding.column)
    )
    results = embedded if similar_to is None else embedder.similar(embedded, similar_to)
    write_output(output_lines(each, as_json=as_json) for each in results)
