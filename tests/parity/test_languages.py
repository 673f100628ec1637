"""Models of many languages translate between the two that are named as transformers does."""

import json
import string

import pytest
import torch

from regard.errors import ConfigError, FolderError
from regard.verbs.convert import convert
from regard.verbs.score import score
from regard.verbs.translate import Translator, translate
from regard.weights.model_folder import load_model
from regard.weights.pretrained import load_pretrained

SIZES = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "decoder_start_token_id": 2,
}
MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
SOURCES = ["a bad cab", "dada", "bed add bag"]
NLLB, MBART = "m2m_100", "mbart"
CODES = {NLLB: ("eng_Latn", "deu_Latn", "fra_Latn"), MBART: ("en_XX", "de_DE", "fr_XX")}


def their_tokenizer(family, **settings):
    import transformers

    letters = ["▁", *string.ascii_lowercase[:8]]
    if family == NLLB:
        pieces = [*MARKS, *letters, *(f"▁{each}" for each in letters[1:])]
        merges = [("▁", each) for each in letters[1:]]
        return transformers.NllbTokenizer(
            vocab={piece: number for number, piece in enumerate(pieces)},
            merges=merges,
            extra_special_tokens=["eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant"],
            **settings,
        )
    pieces = ["<unk>", "<s>", "</s>", *letters, *(f"▁{each}" for each in letters[1:])]
    vocab = [(piece, -float(number)) for number, piece in enumerate(pieces)]
    return transformers.MBart50Tokenizer(vocab=vocab, **settings)


@pytest.fixture(scope="module", params=[NLLB, MBART])
def made(request, tmp_path_factory):
    """The folder, the model and the tokeniser of transformers, and the codes of three languages.

    The model has learned by heart a text of its own for each source and each pair of languages.
    """
    import transformers

    name = {NLLB: "M2M100", MBART: "MBart"}[request.param]
    tokenizer = their_tokenizer(request.param)
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(vocab_size=len(tokenizer), **SIZES)
    theirs = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    theirs.generation_config.update(max_length=20, num_beams=3)
    batch = pairs_of(tokenizer, CODES[request.param])
    optimizer = torch.optim.Adam(theirs.parameters(), lr=5e-3)
    for _ in range(120):
        optimizer.zero_grad()
        theirs(**batch).loss.backward()
        optimizer.step()
    theirs.eval()
    folder = tmp_path_factory.mktemp(request.param) / "theirs"
    theirs.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({name: value for name, value in settings.items() if not name.endswith("_lang")}), "utf-8"
    )
    return folder, theirs, tokenizer, CODES[request.param]


def pairs_of(tokenizer, codes):
    """A batch of each source in each of three pairs of languages, with the text that is learned."""
    english, german, french = codes
    examples = []
    for number, (source, target) in enumerate(((english, german), (german, english), (english, french))):
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
        for text in SOURCES:
            learned = " ".join(text[number:][::-1])
            examples.append(tokenizer(text, text_target=learned))
    labels = [{"input_ids": each.pop("labels")} for each in examples]
    batch = tokenizer.pad(examples, return_tensors="pt")
    batch["labels"] = tokenizer.pad(labels, return_tensors="pt")["input_ids"]
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    return batch


def expected(theirs, tokenizer, source, target, beams):
    tokenizer.src_lang = source
    found = []
    for text in SOURCES:
        ids = theirs.generate(
            **tokenizer(text, return_tensors="pt"),
            forced_bos_token_id=tokenizer.convert_tokens_to_ids(target),
            num_beams=beams,
        )
        found.append(tokenizer.decode(ids[0], skip_special_tokens=True))
    return found


@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_the_texts_are_theirs_in_each_pair_of_languages(made, beams, tmp_path):
    folder, theirs, tokenizer, (english, german, french) = made
    seen = set()
    for source, target in ((english, german), (german, english), (english, french)):
        wanted = expected(theirs, tokenizer, source, target, beams)
        common = {"device": "cpu", "workers": 1, **({"beam_size": 1} if beams == 1 else {})}
        there = Translator(folder, source_lang=source, target_lang=target, **common)
        assert [each.text for each in there(SOURCES)] == wanted
        path = convert(folder, out=tmp_path / target / source, source_lang=source, target_lang=target).path
        assert [each.text for each in Translator(path, **common)(SOURCES)] == wanted
        seen.add(tuple(wanted))
    assert len(seen) == 3


@torch.no_grad()
def test_forced_scores_are_those_of_their_labels(made, tmp_path):
    folder, theirs, tokenizer, (english, german, _) = made
    targets = ["abba", "a cab", "fee"]
    (tmp_path / "src").write_text("".join(f"{each}\n" for each in SOURCES), "utf-8")
    (tmp_path / "ref").write_text("".join(f"{each}\n" for each in targets), "utf-8")
    path = convert(folder, out=tmp_path / "ours", source_lang=english, target_lang=german).path
    found = score(model=path, src=tmp_path / "src", ref=tmp_path / "ref", device="cpu")
    tokenizer.src_lang, tokenizer.tgt_lang = english, german
    for one, source, target in zip(found.scores, SOURCES, targets, strict=True):
        pair = tokenizer(source, text_target=target, return_tensors="pt")
        assert pair["labels"][0, 0] == tokenizer.convert_tokens_to_ids(german)
        loss = theirs(**pair).loss
        assert one.log_prob == pytest.approx(-float(loss) * pair["labels"].size(1), rel=1e-4, abs=1e-4)


def test_the_part_of_a_code_before_the_line_is_enough_if_no_other_begins_with_it(made):
    folder, _, _, (english, german, _) = made
    short = [code.split("_")[0] for code in (english, german)]
    common = {"device": "cpu", "workers": 1}
    long = translate(SOURCES, model=folder, source_lang=english, target_lang=german, **common)
    assert translate(SOURCES, model=folder, source_lang=short[0], target_lang=short[1], **common) == long


def test_languages_that_are_not_there_are_named(made):
    folder, _, _, (english, german, _) = made
    with pytest.raises(ConfigError, match="target_lang = 'xx_XX' is not a language of this model"):
        Translator(folder, source_lang=english, target_lang="xx_XX")
    if german == "deu_Latn":
        with pytest.raises(ConfigError, match="source_lang = 'zho' is not") as caught:
            Translator(folder, source_lang="zho", target_lang=german)
        assert caught.value.hint == "one of zho_Hans, zho_Hant"


def test_without_languages_such_a_model_does_not_guess(made, tmp_path):
    folder, _, _, (english, german, _) = made
    converted = convert(folder, out=tmp_path / "ours").path
    for path in (folder, converted):
        for given in ({}, {"source_lang": english}, {"target_lang": german}):
            with pytest.raises(FolderError, match="languages, and none is chosen") as caught:
                Translator(path, device="cpu", **given)
            assert "--source-lang and --target-lang" in caught.value.hint
    with pytest.raises(FolderError, match="none is chosen"):
        score(model=converted, src=__file__, ref=__file__)


def test_a_model_without_languages_takes_none():
    for given in ({"source_lang": "en"}, {"target_lang": "de"}):
        with pytest.raises(ConfigError, match=r"_lang = '..', but .* has no language tokens"):
            Translator(**given)


def test_languages_that_the_folder_names_are_its_own(made, tmp_path):
    _, theirs, tokenizer, (english, german, french) = made
    path = tmp_path / "named"
    theirs.save_pretrained(path)
    tokenizer.save_pretrained(path)
    settings = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    settings |= {"src_lang": english, "tgt_lang": german}
    (path / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    common = {"device": "cpu", "workers": 1, "beam_size": 1}
    own = Translator(path, **common)
    assert [each.text for each in own(SOURCES)] == expected(theirs, tokenizer, english, german, 1)
    other = Translator(path, target_lang=french, **common)
    assert [each.text for each in other(SOURCES)] == expected(theirs, tokenizer, english, french, 1)


def test_no_text_becomes_the_token_of_a_language_and_no_output_shows_one(made):
    folder, _, _, (english, german, _) = made
    both = load_pretrained(folder).loaded.tokenizer_pair
    tokens = set(both.source.languages.values())
    assert tokens.isdisjoint(both.source.encode(f"a {english} b {german}{english}"))
    number = both.source.languages[german]
    assert both.target.decode([number, *both.target.encode("a bad"), number]) == "a bad"


def test_a_converted_model_is_that_of_transformers_again(made, tmp_path):
    import transformers

    folder, theirs, tokenizer, (english, german, _) = made
    ours = convert(folder, out=tmp_path / "ours", source_lang=english, target_lang=german).path
    back = convert(ours, out=tmp_path / "back", to="hf").path
    assert json.loads((back / "config.json").read_text("utf-8"))["model_type"] == theirs.config.model_type
    model = getattr(transformers, type(theirs).__name__).from_pretrained(back).eval()
    again = transformers.AutoTokenizer.from_pretrained(back)
    ids = model.generate(**again(SOURCES[0], return_tensors="pt"), num_beams=1)
    wanted = expected(theirs, tokenizer, english, german, 1)[0]
    assert again.decode(ids[0], skip_special_tokens=True).split() == wanted.split()
    twice = convert(back, out=tmp_path / "twice").path
    assert load_model(twice).tokenizers.target.prefix == load_model(ours).tokenizers.target.prefix
    common = {"device": "cpu", "workers": 1, "beam_size": 1}
    assert [each.text for each in Translator(twice, **common)(SOURCES)] == [
        each.text for each in Translator(ours, **common)(SOURCES)
    ]


@pytest.mark.parametrize(
    "settings", [{"legacy_behaviour": True}, {"tokenizer_class": "MBartTokenizerFast"}], ids=str
)
def test_texts_that_end_with_their_language_are_refused(made, settings, tmp_path):
    import shutil

    path = tmp_path / "theirs"
    shutil.copytree(made[0], path)
    table = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    (path / "tokenizer_config.json").write_text(json.dumps({**table, **settings}), "utf-8")
    with pytest.raises(FolderError, match="its texts end with the token of their language"):
        load_pretrained(path)
