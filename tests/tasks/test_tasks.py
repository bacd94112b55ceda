"""Lists, rescoring, verdict, completion and export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from selfnorm._util.errors import UserError
from selfnorm.calibration.base import Budget
from selfnorm.cli import main
from selfnorm.config.recipe import Model
from selfnorm.data.vocab import Vocab
from selfnorm.nn.model import build
from selfnorm.nn.normalizers import Affine, Mlp
from selfnorm.runs.folder import open_run
from selfnorm.runs.loading import load_model
from selfnorm.runs.opening import load as open_scorer
from selfnorm.scoring.onnx.export import export, rounding_error
from selfnorm.scoring.scorer import Scorer
from selfnorm.studies.experiment import run_experiment as run
from selfnorm.tasks.completion import Question, answer, decide, read_questions, summary
from selfnorm.tasks.nbest.base import Hypothesis, NBest
from selfnorm.tasks.nbest.lists import read_lists
from selfnorm.tasks.rescoring import Weights, choose, tables
from selfnorm.tasks.tuning import Development, tune, word_errors
from selfnorm.tasks.verdict import judge, proportion_interval
from selfnorm.tasks.wer import References, errors

from ..conftest import tiny, write_text

LISTS = [
    {
        "id": "u1",
        "hyps": [{"text": "the cat saw a dog", "score": -10}, {"text": "the cat saw dog a", "score": -9.5}],
        "ref": "the cat saw a dog",
    },
    {
        "id": "u2",
        "hyps": [
            {"text": "", "score": -3},
            {"text": "it was here", "score": -3.2},
            {"text": "it was zzz", "score": -1},
        ],
    },
    {"id": "u3", "hyps": [{"text": "a bird", "score": 0}]},
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("runs")
    run(tiny(write_text(base / "tiny.txt")), base / "nce")
    return base / "nce"


def jsonl(path: Path) -> Path:
    path.write_text("".join(json.dumps(x) + "\n" for x in LISTS))
    return path


FORMATS = {
    "moses": (
        "0 ||| the cat ||| LM0= -3 d= 1 ||| -5.5\n0 ||| a cat ||| LM0= -2 d= 1 ||| -6\n1 |||  ||| d= 0 ||| -1\n",
        "0 ||| the cat ||| -5\n",
    ),
    "nemo": ("the cat\t-5.5\na cat\t-6\n\n\t-1\n", "the cat -5\n"),
    "srilm": ("-2.5 -1.5 2 <s> the cat </s>\n-3 -1 2 a cat\n", "-2.5 the cat\n"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_read_written_and_its_bad_lines_named(
    form: str, tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = FORMATS[form]
    path = tmp_path / "lists"
    path.write_text(good)
    lists, skipped = read_lists(path, form)
    assert [h.words for h in lists[0].hypotheses] == [("the", "cat"), ("a", "cat")] and not skipped
    assert main(f"rescore {trained} {path} --format {form} --print nbest".split()) == 0
    (tmp_path / "again").write_text(capsys.readouterr().out)
    again, _ = read_lists(tmp_path / "again", form)
    assert sorted(h.words for h in again[0].hypotheses) == sorted(h.words for h in lists[0].hypotheses)
    path.write_text(good + bad)
    with pytest.raises(UserError, match=r"lists line \d+: expected"):
        read_lists(path, form)
    kept, skipped = read_lists(path, form, skip_bad=True)
    assert len(skipped) == 1 and len(kept) == len(lists)


def test_kaldi_folders_are_read_with_their_costs(tmp_path: Path) -> None:
    (tmp_path / "words_text").write_text("utt-a-1 the cat\nutt-a-2 a cat\nutt-b-1 \n")
    (tmp_path / "acwt").write_text("utt-a-1 10\nutt-a-2 12\nutt-b-1 1\n")
    (tmp_path / "lmwt.lmonly").write_text("utt-a-1 3\nutt-a-2 4\nutt-b-1 1\n")
    lists, _ = read_lists(tmp_path, "kaldi")
    assert [n.name for n in lists] == ["utt-a", "utt-b"]
    assert lists[0].hypotheses[1].score == -12 and lists[0].hypotheses[1].old_lm == -4
    (tmp_path / "words_text").write_text("utt-a-1\tthe cat\nutt-a-2\ta cat\nutt-b-1\n")
    assert [h.words for n in read_lists(tmp_path, "kaldi")[0] for h in n.hypotheses] == [
        ("the", "cat"),
        ("a", "cat"),
        (),
    ]
    (tmp_path / "words_text").write_text("utt-a-1 the cat\nutt-a-2 a cat\nutt-b-1 \n")
    (tmp_path / "acwt").write_text("utt-a-1 10\nutt-b-1 1\n")
    with pytest.raises(UserError, match="a cost for utt-a-2 in acwt"):
        read_lists(tmp_path, "kaldi")
    (tmp_path / "acwt").write_text("utt-a-1 ten\n")
    with pytest.raises(UserError, match="acwt line 1"):
        read_lists(tmp_path, "kaldi")


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "u", "hyps": []}',
        '{"id": "u", "hyps": [{"text": "a"}]}',
        '{"id": "u", "hyps": [{"text": "a", "score": NaN}]}',
        '{"id": "u", "hyps": [{"text": "a", "score": 1' + "0" * 400 + "}]}",
        '{"id": "\\ud800", "hyps": [{"text": "a", "score": 1}]}',
        "[" * 100_000,
        "nonsense",
    ],
)
def test_a_bad_json_line_is_named_or_skipped_and_counted(line: str, tmp_path: Path) -> None:
    good = '{"id": "g", "hyps": [{"text": "a\u2028b", "score": 1}]}'
    (tmp_path / "l.jsonl").write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"l.jsonl line 2: expected"):
        read_lists(tmp_path / "l.jsonl", "jsonl")
    lists, skipped = read_lists(tmp_path / "l.jsonl", "jsonl", skip_bad=True)
    assert len(lists) == 1 and len(skipped) == 1


def test_what_is_written_again_means_the_same(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores that are not the LM's stay what they were, and nothing a list held is lost."""
    held = [{**LISTS[0], "speaker": "A", "hyps": [{**h, "lm": -7.5, "tag": 1} for h in LISTS[0]["hyps"]]}]
    (tmp_path / "l.jsonl").write_text(json.dumps(held[0]) + "\n")
    assert main(f"rescore {trained} {tmp_path}/l.jsonl --print nbest".split()) == 0
    found = json.loads(capsys.readouterr().out)
    added = [(h.pop("selfnorm"), h.pop("total")) for h in found["hyps"]]
    assert sorted(found.pop("hyps"), key=str) == sorted(held[0].pop("hyps"), key=str) and found == held[0]
    assert all(total < lm < 0 for lm, total in added) and added[0][1] >= added[1][1]
    (tmp_path / "m").write_text("0 ||| the cat ||| LM0= -3 ||| -5.5 ||| 0-0 1-1\n")
    assert main(f"rescore {trained} {tmp_path}/m --format moses --print nbest".split()) == 0
    assert capsys.readouterr().out.endswith(" ||| 0-0 1-1\n")
    kaldi = tmp_path / "kaldi"
    kaldi.mkdir()
    (kaldi / "words_text").write_text("utt-a-1 the cat\nutt-a-2 a cat\n")
    (kaldi / "acwt").write_text("utt-a-1 10\nutt-a-2 90\n")
    assert main(f"rescore {trained} {kaldi} --format kaldi --print nbest".split()) == 0
    assert capsys.readouterr().out == "utt-a-1 the cat\nutt-a-2 a cat\n"


def test_references_inside_the_lists_are_used(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "l.jsonl").write_text(json.dumps(LISTS[0]) + "\n")
    assert main(f"rescore {trained} {tmp_path}/l.jsonl --lm-weight 0 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["wer_without_lm"] == pytest.approx(2 / 5)


def test_a_gap_may_be_longer() -> None:
    assert Question("1", "a _______ b", ("x", r"y\1")).sentences() == ["a x b", r"a y\1 b"]


def test_weights_choose_what_the_slow_sum_chooses(trained: Path, tmp_path: Path) -> None:
    scorer = open_scorer(trained)
    lists, _ = read_lists(jsonl(tmp_path / "l.jsonl"), "jsonl")
    found = tables(scorer, lists)
    weights = Weights(0.7, 0.3)
    for nbest, picked in zip(lists, choose(found, weights), strict=True):
        slow = [h.score + 0.7 * scorer.score(" ".join(h.words)) + 0.3 * len(h.words) for h in nbest.hypotheses]
        assert picked == int(np.argmax(slow))


def test_tuning_does_at_least_as_well_as_either_score_alone(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("jiwer")
    lists, _ = read_lists(jsonl(tmp_path / "l.jsonl"), "jsonl")
    references = {"u1": "the cat saw a dog", "u2": "it was here", "u3": "a bird"}
    found = tables(open_scorer(trained), lists)
    counts, words = errors(lists, References(references))
    assert words == 10 and counts[0].tolist() == [0, 2] and counts[1].tolist() == [3, 0, 1]
    development, loss = Development(found), word_errors(counts, words)
    rate = lambda w: loss(development.picks(w), np.arange(len(lists)))  # noqa: E731
    assert rate(tune(development, lambda picks: loss(picks, np.arange(len(lists))))) <= min(
        map(rate, (Weights(0.0), Weights(100.0)))
    )


def test_rescoring_tunes_for_bleu_and_for_error_rate_and_reports_both_ways(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sacrebleu")
    path = jsonl(tmp_path / "l.jsonl")
    (tmp_path / "refs").write_text("u1 the cat saw a dog\nu2 it was here\nu3 a bird\n")
    for metric, better in (("wer", lambda one, two: one <= two), ("bleu", lambda one, two: one >= two)):
        assert main(f"rescore {trained} {path} --tune {tmp_path}/refs --metric {metric} --json".split()) == 0
        found = json.loads(capsys.readouterr().out)
        assert better(found[metric], found[f"{metric}_without_lm"]) and set(found["picked"]) == {"u1", "u2", "u3"}
        (tmp_path / "few").write_text("u1 the cat saw a dog\n")
        assert main(f"rescore {trained} {path} --tune {tmp_path}/few --metric {metric}".split()) == 2
        assert "no reference for list" in capsys.readouterr().err
    assert (
        main(f"rescore {trained} {path} --tune {tmp_path}/refs --test {path} --references {tmp_path}/refs".split()) == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_verdict_counts_flips_and_gives_a_sentence(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = open_scorer(trained, normalized=True)
    lists, _ = read_lists(jsonl(tmp_path / "l.jsonl"), "jsonl")
    found = judge(scorer, lists, Weights(1.0), allowed=0.9)
    assert found.lists == 2 and 0 <= found.flip_rate <= 1
    assert found.sentence.startswith("Safe") == found.safe
    assert main(f"verdict {trained} {tmp_path}/l.jsonl".split()) == 0
    assert "lists change their 1-best" in capsys.readouterr().out
    assert main(f"verdict {trained} {tmp_path}/l.jsonl --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["lists"] == 2


def test_wilson_is_sensible_at_the_edges() -> None:
    assert proportion_interval(0, 100)[0] == 0 and 0.03 < proportion_interval(0, 100)[1] < 0.05
    assert proportion_interval(50, 100) == pytest.approx((0.404, 0.596), abs=1e-3)


QUESTIONS = "id,question,a),b)\n1,the cat _____ a dog,saw,small\n2,it _____ here,was,bird\n"


def test_completion_chooses_by_the_summed_scores(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.csv").write_text(QUESTIONS)
    (tmp_path / "a.csv").write_text("id,answer\n1,a\n2,a\n")
    scorer = open_scorer(trained, normalized=True)
    questions = read_questions(tmp_path / "q.csv", tmp_path / "a.csv")
    found = answer(scorer, questions)
    for question, picked in zip(questions, found.normalized, strict=True):
        assert picked == int(np.argmax([scorer.score(s) for s in question.sentences()]))
    exact = np.concatenate([-scorer.word_scores(q.sentences()[0]) for q in questions])
    result = summary(questions, found)
    assert result["perplexity"] == pytest.approx(np.exp(exact.mean()), rel=1e-4)
    assert main(f"complete {trained} {tmp_path}/q.csv {tmp_path}/a.csv --json".split()) == 0
    assert {"acc_n", "delta_acc", "perplexity", "sigma_z", "mcnemar_p"} <= set(json.loads(capsys.readouterr().out))
    assert main(f"complete {trained} {tmp_path}/q.csv".split()) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert decide(scorer, questions)[0] == found.normalized
    assert main(f"complete {trained} {tmp_path}/q.csv {tmp_path}/a.csv --exact".split()) == 0
    said = capsys.readouterr()
    assert said.out.split() == [
        x for q, n in zip(questions, found.normalized, strict=True) for x in (q.name, q.choices[n])
    ]
    assert "of 2 right" in said.err and "contexts" in said.err
    assert main(f"complete {trained} {tmp_path}/q.csv {tmp_path}/a.csv --exact --to x.json".split()) == 2


@pytest.mark.parametrize(
    ("questions", "answers", "says"),
    [
        (QUESTIONS.replace(",small", ""), None, "line 2: expected 2 choices, found 1"),
        (QUESTIONS.replace("_____ a", "a"), None, "line 2: expected one gap"),
        (QUESTIONS.replace("the cat", "_____ cat"), None, "found 2"),
        (QUESTIONS.replace("_____ a", "____ a"), None, "found 0"),
        (QUESTIONS, "id,answer\n1,a\n2,f\n", "not among the 2 choices"),
        (QUESTIONS, "id,answer\n2,a\n1,a\n", "expected the answer to question 1"),
        (QUESTIONS, "id,answer\n1,a\n", "1 answers for 2 questions"),
        ("x,y\n", None, "line 1"),
        ("", None, "is empty"),
    ],
)
def test_malformed_questions_are_named(questions: str, answers: str | None, says: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(questions)
    if answers:
        (tmp_path / "a.csv").write_text(answers)
    with pytest.raises(UserError, match=says):
        read_questions(tmp_path / "q.csv", tmp_path / "a.csv" if answers else None)


@pytest.mark.parametrize("encoder", ["lstm", "gru"])
@pytest.mark.parametrize("link", ["", "squash", "log_sigmoid"])
@pytest.mark.parametrize("normalizer", ["none", "affine", "learned", "learned and mlp"])
def test_every_model_with_a_full_output_layer_is_exported(
    encoder: str, link: str, normalizer: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rng = torch.Generator().manual_seed(0)
    model = build(Model(d=8, encoder=encoder, init=0.5), 12, rng, normalizer="learned" in normalizer)
    model.output.link = link
    if normalizer == "affine":
        model.output.normalizer = Affine(8)
    if normalizer == "learned and mlp":  # a calibration on top of what was trained
        model = model.with_output(model.output.with_normalizer(Mlp(8, (5,), frequent=3)))
    for weight in model.output.parameters():
        weight.requires_grad_(False).uniform_(-1.5, 1.5, generator=rng)
    vocab = Vocab([f"w{i}" for i in range(10)] + ["<eos>", "<unk>"], [1] * 12)
    export(model, vocab, tmp_path / "m.onnx", exact=True)
    assert json.loads((tmp_path / "m.json").read_text())["encoder"] == encoder
    words = np.arange(6).reshape(2, 3)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    feed = {"words": words, "candidates": words[..., None]}
    m, log_z, *_ = session.run(None, feed | {i.name: np.zeros((1, 2, 8), np.float32) for i in session.get_inputs()[2:]})
    with torch.no_grad():
        c, _ = model.contexts(torch.from_numpy(words), None)
        assert np.allclose(m[..., 0], model.output.m(torch.from_numpy(words), c).numpy(), atol=1e-5)
        assert np.allclose(log_z, model.output.log_z(c).numpy(), atol=1e-5)


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    vocab, rng = Vocab(["a", "<eos>", "<unk>"], [1] * 3), torch.Generator().manual_seed(0)
    with pytest.raises(UserError, match="normalized by construction"):
        export(build(Model(d=4), 3, rng, output="classes"), vocab, tmp_path / "m.onnx")
    with pytest.raises(UserError, match="without --int8"):
        export(build(Model(d=4, encoder="gru"), 3, rng), vocab, tmp_path / "m.onnx", int8=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("calibration", ["none", "mlp", "screen", "int8"])
@pytest.mark.parametrize("int8", [False, True])
def test_the_onnx_graph_agrees_with_torch_for_any_batch_and_length(
    trained: Path, tmp_path: Path, int8: bool, calibration: str
) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from selfnorm.runs.calibrate import calibrate_run
    from selfnorm.runs.loading import load_model
    from selfnorm.runs.opening import open_with_text

    made, corpus = open_with_text(trained)
    if calibration != "none":
        calibrate_run(
            made, corpus, calibration, Budget(rank=4, top=5, preview="int8" if int8 else "float32"), use=False
        )
    model = load_model(made, calibration=calibration)
    export(model, made.vocab, tmp_path / "m.onnx", exact=True, int8=int8)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    for B, T, K in ((1, 1, 1), (3, 5, 2)):
        rng = np.random.default_rng(0)
        words, candidates = (
            rng.integers(len(made.vocab), size=(B, T)),
            rng.integers(len(made.vocab), size=(B, T, K)),
        )
        feed = {"words": words, "candidates": candidates}
        feed |= {i.name: np.zeros((1, B, model.encoder.d), np.float32) for i in session.get_inputs()[2:]}
        m, log_z, *state = session.run(None, feed)
        c, _ = model.contexts(torch.from_numpy(words), None)
        expected = model.output.m_each(torch.from_numpy(candidates), c).numpy()
        assert np.allclose(m, expected, atol=0.2 if int8 else 1e-4)
        assert np.allclose(log_z, model.output.log_z(c).numpy(), atol=0.2 if int8 else 1e-4)
        assert state[0].shape == (1, B, model.encoder.d)
    rows = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert "rows_t" in {t.name for t in rows if t.data_type == onnx.TensorProto.FLOAT}, "log Z of the rows m is of"
    if calibration == "mlp":  # what was fitted to a hundredth must not be rounded to a tenth
        kept = onnx.load(tmp_path / "m.onnx").graph.initializer
        assert {"g_rows", "g_w0"} <= {tensor.name for tensor in kept if tensor.data_type == onnx.TensorProto.FLOAT}


def test_eight_bits_make_the_whole_graph_small_and_say_their_error(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    assert main(f"export {trained} --calibration none --int8 --out {tmp_path}/m.onnx".split()) == 0
    assert "nats on average" in capsys.readouterr().err
    held = {t.name: t.data_type for t in onnx.load(tmp_path / "m.onnx").graph.initializer}
    assert held["table"] == held["rows"] == onnx.TensorProto.INT8
    model = load_model(open_run(trained), calibration="none")
    mean, largest = rounding_error(model, open_run(trained).vocab, tmp_path / "m.onnx")
    assert 0 < mean < 0.05 and largest < 0.3
    export(model, open_run(trained).vocab, tmp_path / "f.onnx")
    assert rounding_error(model, open_run(trained).vocab, tmp_path / "f.onnx")[1] < 1e-4


def lists_of(*words: str, count: int = 120) -> list[NBest]:
    return [NBest(str(i), (Hypothesis(words, 0.0), Hypothesis(words[::-1], 0.0))) for i in range(count)]


def test_no_verdict_is_given_on_words_the_model_does_not_know(trained: Path) -> None:
    scorer = open_scorer(str(trained))
    found = judge(scorer, lists_of("ZEBRA", "QUAGGA", "the"), Weights())
    assert not found.safe and "33% of the words" in found.sentence
    assert judge(scorer, lists_of("cat", "dog", "the"), Weights()).sentence.split(":")[0] in ("Safe", "Not safe")
    with pytest.raises(UserError, match="no say"):
        judge(scorer, lists_of("cat", "dog"), Weights(lm=0.0))


def test_what_is_normalized_by_construction_is_safe_on_any_number_of_lists(trained: Path) -> None:
    vocab = open_scorer(trained).vocab
    model = build(Model(d=4), len(vocab), torch.Generator().manual_seed(0), output="classes").requires_grad_(False)
    found = judge(Scorer(model, vocab), lists_of("cat", "dog", count=2), Weights())
    assert found.safe and "by construction" in found.sentence


def test_a_list_id_that_comes_again_is_named(tmp_path: Path) -> None:
    line = json.dumps({"id": "u1", "hyps": [{"text": "a", "score": 0}]})
    (tmp_path / "l.jsonl").write_text(f"{line}\n{line}\n")
    with pytest.raises(UserError, match="line 2: expected an id that no list before has, found 'id u1'"):
        read_lists(tmp_path / "l.jsonl", "jsonl")
    assert len(read_lists(tmp_path / "l.jsonl", "jsonl", skip_bad=True)[0]) == 1


def test_a_byte_order_mark_is_not_a_word(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.txt").write_text("the cat\n", encoding="utf-8")
    (tmp_path / "mark.txt").write_text("the cat\n", encoding="utf-8-sig")
    for name in ("plain", "mark"):
        assert main(f"score {trained} {tmp_path}/{name}.txt".split()) == 0
    one, two = capsys.readouterr().out.split()
    assert one == two


def test_srilm_lists_of_several_utterances_are_not_printed_into_one(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.nbest").write_text("-3 -2 2 the cat\n-4 -2 1 it\n")
    assert main(f"rescore {trained} {tmp_path} --format srilm --print nbest".split()) == 2
    assert "one file per utterance" in capsys.readouterr().err
    assert main(f"rescore {trained} {tmp_path}/a.nbest --format srilm --print nbest".split()) == 0


def test_a_graph_does_not_overwrite_what_is_not_a_graphs(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "mine.json").write_text('{"mu_z": 0}')
    assert main(f"export {trained} -o {tmp_path}/mine.onnx".split()) == 2
    assert main(f"export {trained} -o {tmp_path}/cost.onnx".split()) == 2
    assert main(f"export {trained} -o {tmp_path}/out.json".split()) == 2
    assert "must end in .onnx" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.json"]
    for _ in range(2):  # its own may be written again
        assert main(f"export {trained} -o {tmp_path}/m.onnx".split()) == 0
