"""`regard classify`."""

from pathlib import Path

import click

from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, path_of, refuse_half_a_job, run, table_or_job_output
from regard.cli.options import fields_of
from regard.cli.table_output import table_of_output, write_table
from regard.cli.text_command import chunks_of, lines_of, refuse_two, text_command, write_output
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import ClassificationOptions, ShardOptions


@click.command("classify", cls=Command)
@text_command(
    "Classify each line of a file; or each image, or each node of a graph",
    fields_of("options", ClassificationOptions),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="TEXT",
        help="For images and an image-text model (CLIP): the text of a class, such as 'a photo of a cat';"
        " again for more.",
    ),
    several=True,
    output=table_or_job_output,
)
def command(
    text: tuple[str, ...],
    model: Path,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    options: ClassificationOptions,
    labels: tuple[str, ...],
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Classify texts, each line of a file or of a pipe, or images.

    Without TEXT and --input standard input is read. Each line of input gives a line of output, LABEL and
    PROBABILITY separated by a tab, in the same order; an empty line gives an empty line.

    With a vision model each TEXT is an image (PNG, JPEG, WebP, GIF, BMP), a folder, whose images and
    subfolders are read, or an IDX or NPZ file. Each image gives a line: FILE, LABEL and PROBABILITY. An IDX
    file, or an NPZ file with an array `images`, may also follow --input; then no line has a FILE. An
    image-text model (CLIP) gives each image the --label that fits it best, of two or more.

    A graph model reads a graph from --input, an NPZ file with `features` and `edges`, and gives a line for
    each node. FILE may be NAME:FILE of a known data set.

    With --column and --output FILE.csv the table is written with the columns `label` and `label_probability`,
    or NAME and NAME_probability with --into NAME; a model of numbers adds one, `value`.
    """
    refuse_two(text, input)
    refuse_half_a_job(sharding, text=bool(text), input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json, top=options.top)

    with importing():
        from regard.verbs.classify import Classifier, cells_of, columns_of, output_lines
        from regard.verbs.classify_images import ImageClassifier, reads_images
        from regard.verbs.classify_nodes import NodeClassifier, reads_graphs
        from regard.verbs.shards import classify_shard

    file = path_of(input)
    if sharding.is_job:
        if labels:
            raise UserError(
                "--label is for images, but --shard and --on answer lines of text", "leave one of them out"
            )
        settings = {"model": model, "as_json": as_json, "options": options, "runtime": runtime}
        run(classify_shard, sharding, output, input=input, **settings)
        return
    has_images = (bool(text) or file is not None) and reads_images(model)
    if labels and not has_images:
        is_given = bool(text) or file is not None
        problem = "this model classifies no images" if is_given else "there are no images"
        raise UserError(
            f"--label describes a class of images, and {problem}",
            "a classifier of texts has its own classes: leave --label out; for images give their files, and"
            " an image-text model such as CLIP",
        )
    if table is not None and sharding.column is not None:
        classifier = Classifier(model, options=options, runtime=runtime)
        names = columns_of(classifier, sharding.into)
        write_table(classifier, cells_of, names, (input, output), sharding.column, table)
        return
    if has_images:
        images = ImageClassifier(model, top=options.top, labels=labels, runtime=runtime)
        found = images(text) if file is None else images.file(file)
    elif file is not None and reads_graphs(model):
        found = NodeClassifier(model, top=options.top, runtime=runtime)(file)
    else:
        classifier = Classifier(model, options=options, runtime=runtime)
        lines = [line for each in text for line in lines_of(each)] if text else None
        found = classifier.in_chunks(
            chunks_of(lines, file, "type a line to classify it", column=sharding.column)
        )
    write_output(output_lines(each, ranked=options.top > 1, as_json=as_json) for each in found)
