"""Small tokenizers of every kind, trained here: what the fetched vocabularies do not cover."""

import json
import random
import struct
import zlib

from tokenizer_corpus import ROOT
from tokenizer_texts import CROSSING, TEXTS, WORDS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPM_DECODER = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)


def training_texts(texts):
    prose = (ROOT / "tests/data/public_domain.txt").read_text(encoding="utf-8").splitlines()
    rng = random.Random(5)
    chosen = rng.sample(texts, min(250, len(texts)))
    return prose * 3 + TEXTS * 2 + CROSSING * 5 + [" ".join(WORDS)] * 20 + [t for t in chosen if "\x00" not in t]


def charsmap(texts, folder):
    """SentencePiece's own nmt_nfkc rules, compiled."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "spm_unigram.model").read_bytes())
    return model.normalizer_spec.precompiled_charsmap


def train_sentencepiece(texts, out):
    """name → options of the SentencePiece models."""
    import sentencepiece

    lines = [line for text in texts for line in text.split("\n") if 0 < len(line.encode()) < 4000 and "\x00" not in line]
    (out / "spm.txt").write_text("\n".join(lines), encoding="utf-8")
    common = dict(
        input=str(out / "spm.txt"), character_coverage=0.98, minloglevel=2, num_threads=2, hard_vocab_limit=False
    )
    for name, options in {
        "spm_unigram": dict(model_type="unigram", vocab_size=2400),
        "spm_llama": dict(
            model_type="bpe",
            vocab_size=2400,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            split_digits=True,
        ),
        "spm_bpe_unk": dict(model_type="bpe", vocab_size=2300, normalization_rule_name="nfkc_cf"),
        "spm_unigram_bytes": dict(model_type="unigram", vocab_size=2500, byte_fallback=True, add_dummy_prefix=False),
    }.items():
        sentencepiece.SentencePieceTrainer.train(model_prefix=str(out / name), **common, **options)
        (out / f"{name}.vocab").unlink()
    (out / "spm.txt").unlink()


def tokenizer(model, trainer, texts, normalizer=None, pre=None, decoder=None, post=None):
    made = Tokenizer(model)
    if normalizer is not None:
        made.normalizer = normalizer
    if pre is not None:
        made.pre_tokenizer = pre
    made.train_from_iterator(texts, trainer)
    if decoder is not None:
        made.decoder = decoder
    if post is not None:
        made.post_processor = post(made)
    return made


def around(first, last=None):
    def make(made):
        single = f"{first} $A" + (f" {last}" if last else "")
        names = [first] + ([last] if last else [])
        return processors.TemplateProcessing(single, special_tokens=[(n, made.token_to_id(n)) for n in names])

    return make


def changed(made, change):
    """The same tokenizer with its JSON changed."""
    whole = json.loads(made.to_str())
    change(whole)
    return Tokenizer.from_str(json.dumps(whole))


def set_model(**fields):
    return lambda whole: whole["model"].update(fields)


def with_added(made, spaces=("▁▁",)):
    made.add_special_tokens([AddedToken("<|end|>", rstrip=True), AddedToken("<|user|>", lstrip=True, rstrip=True)])
    made.add_tokens(
        [
            AddedToken("word", single_word=True, normalized=False),
            AddedToken("\n\n", normalized=False),
            AddedToken("Hello", normalized=True),
            AddedToken("é", normalized=True),
        ]
        + [AddedToken(space, normalized=True) for space in spaces]
    )
    return made


def small_tokenizers(texts, rules):
    """(name, tokenizer)"""
    unigram = lambda size=3500, **more: trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False, **more
    )
    bpe = lambda size=2500, specials=("<unk>", "<s>", "</s>"), **more: trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(specials), show_progress=False, **more
    )
    pieces = lambda size=2500: trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    bert = lambda made: processors.BertProcessing(("[SEP]", made.token_to_id("[SEP]")), ("[CLS]", made.token_to_id("[CLS]")))
    roberta = lambda made: processors.RobertaProcessing(("</s>", made.token_to_id("</s>")), ("<s>", made.token_to_id("<s>")))
    precompiled = lambda: normalizers.Precompiled(rules)
    metaspace = pre_tokenizers.Metaspace

    yield "unigram_metaspace", tokenizer(models.Unigram(), unigram(), texts, None, metaspace(), decoders.Metaspace())
    t5 = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace()])
    yield "unigram_t5", with_added(
        tokenizer(models.Unigram(), unigram(), texts, precompiled(), t5, decoders.Metaspace(), around("</s>"))
    )
    xlmr = normalizers.Sequence([precompiled(), normalizers.Replace(Regex(" {2,}"), " ")])
    yield "unigram_xlmr", with_added(
        tokenizer(
            models.Unigram(), unigram(), texts, xlmr, metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first")
        ),
        spaces=(),
    )
    made = tokenizer(
        models.Unigram(),
        unigram(),
        texts,
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(right=False)]),
        metaspace(prepend_scheme="never", split=False),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
    )

    def add_bytes(whole):
        whole["model"]["vocab"] += [[byte, 0.0] for byte in BYTES if byte not in dict(whole["model"]["vocab"])]
        whole["model"]["byte_fallback"] = True

    yield "unigram_bytes", changed(made, add_bytes)

    spm = lambda: normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>", *BYTES]
    made = tokenizer(
        models.BPE(unk_token="<unk>", fuse_unk=True), bpe(1800, specials), texts, spm(), None, SPM_DECODER, around("<s>")
    )

    def keep_three(whole):
        whole["added_tokens"] = whole["added_tokens"][:3]
        whole["model"]["byte_fallback"] = True

    yield "bpe_llama", changed(made, keep_three)
    yield "bpe_phi3", with_added(changed(made, keep_three))

    def partial_bytes(whole):  # some characters become bytes, some the unknown token
        keep_three(whole)
        for byte in range(0xC4, 0x100):
            whole["model"]["vocab"][f"<x{byte}>"] = whole["model"]["vocab"].pop(f"<0x{byte:02X}>")

    yield "bpe_some_bytes", changed(made, partial_bytes)
    for name, fuse in (("bpe_unknown", False), ("bpe_fused_unknown", True)):
        yield name, tokenizer(
            models.BPE(unk_token="<unk>", fuse_unk=fuse),
            bpe(900, limit_alphabet=120),
            texts,
            normalizers.NFKD(),
            metaspace(prepend_scheme="first", split=not fuse),
            decoders.Metaspace(prepend_scheme="never"),
            roberta,
        )
    # A token in the middle of what one character became; what is behind it still comes from the text's first one.
    parts = lambda made: (made.add_tokens([AddedToken(part, normalized=True) for part in "1TkC (".split(" ")]), made)[1]
    yield "bpe_first", parts(
        tokenizer(
            models.BPE(unk_token="<unk>"),
            bpe(900, limit_alphabet=200),
            texts,
            normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Replace(Regex("[/x]"), "é⁄")]),
            pre_tokenizers.Sequence([pre_tokenizers.Digits(), metaspace(prepend_scheme="first")]),
            decoders.Metaspace(prepend_scheme="first"),
        )
    )
    yield "unigram_first", parts(
        tokenizer(models.Unigram(), unigram(), texts, precompiled(), metaspace(prepend_scheme="first"), decoders.Metaspace())
    )
    scripts = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), metaspace(prepend_scheme="first")])
    yield "unigram_scripts", tokenizer(models.Unigram(), unigram(), texts, None, scripts, decoders.Metaspace())
    clip = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)]
    )
    yield "bpe_suffix", tokenizer(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        bpe(1200, end_of_word_suffix="</w>", limit_alphabet=300),
        texts,
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        clip,
        decoders.BPEDecoder(suffix="</w>"),
    )
    yield "bpe_prefix", tokenizer(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        bpe(1200, continuing_subword_prefix="##", limit_alphabet=300),
        texts,
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)]),
        decoders.WordPiece(cleanup=True),
    )
    yield "bpe_visible_bytes", tokenizer(
        models.BPE(),
        trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        texts,
        normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]),
        None,
        decoders.ByteLevel(),
    )
    yield "wordpiece_bert", with_added(
        tokenizer(
            models.WordPiece(unk_token="[UNK]"),
            pieces(),
            texts,
            normalizers.BertNormalizer(),
            pre_tokenizers.BertPreTokenizer(),
            decoders.WordPiece(),
            bert,
        )
    )
    yield "wordpiece_cased", tokenizer(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12),
        pieces(),
        texts,
        normalizers.BertNormalizer(lowercase=False, strip_accents=True, handle_chinese_chars=False, clean_text=True),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]),
        decoders.WordPiece(cleanup=False),
    )
    yield "wordlevel", tokenizer(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(vocab_size=900, special_tokens=["[UNK]"], show_progress=False),
        texts,
        normalizers.Strip(),
        pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("_"), pre_tokenizers.Whitespace()]),
    )
    yield "ctc", tokenizer(
        models.WordLevel(unk_token="<unk>"),
        trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<pad>", "<unk>", "|"], show_progress=False),
        texts,
        normalizers.Replace(" ", "|"),
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.FixedLength(2)]),
        decoders.CTC(),
    )


def compare_sentencepiece(out, name, texts, write_expected):
    """The library normalizes and cuts in one go, so that only plain texts are compared: no special tokens."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(out / f"{name}.model"))
    crc = lambda ids: zlib.crc32(struct.pack(f"<{len(ids)}I", *ids)) or 1
    rows = []
    for text in texts:
        if any(mark in text for mark in ("<s>", "</s>", "<unk>", "\x00", "▁")) or len(text) > 2000:
            rows.append((0, 0, 0, 0))
            continue
        ids = model.encode(text)
        rows.append((crc(ids), crc([model.bos_id(), *ids]), 1, 1))
    write_expected(out / f"{name}.expected", rows, [])


def trained(out, texts, seed, compare_folder, write_expected):
    sample = training_texts(texts)
    if not (out / "spm_unigram_bytes.model").exists():
        train_sentencepiece(sample, out)
    for name, made in small_tokenizers(sample, charsmap(sample, out)):
        (out / name).mkdir(exist_ok=True)
        made.save(str(out / name / "tokenizer.json"))
        compare_folder(out, name, texts, seed, 300)
    for path in sorted(out.glob("spm*.model")):
        compare_sentencepiece(out, path.stem, texts, write_expected)
