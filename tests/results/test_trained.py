"""A run's model: from memory, from its folder, and as a file for other programs, on real test images."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from cli_runner import Outcome
from fedteddi import Dataset, InputError, compare, read_study, simulate
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.results.runs import RunRecord
from fedteddi.results.trained import Opened, Weights, weights_of
from fedteddi.settings import Settings
from small_world import tiny_data, tiny_settings

DATA = load_dataset("fashion-mnist")
IMAGES = DATA.normalised(DATA.test_images)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def played(out: Path | None = None, **changes: Any) -> RunRecord:
    """A short run on Fashion-MNIST that ends with an evaluation on all test images."""
    short = {
        "rounds": [0, 2],
        "training__pretrain_epochs": 1,
        "training__local_steps": 2,
        "evaluation__every": 10,
    }
    return simulate(Settings(), out=out, **(short | changes))


def accuracy_by_class(scores: Tensor, labels: Tensor) -> list[float]:
    guesses = scores.argmax(dim=1)
    return [float((guesses[labels == c] == c).double().mean()) for c in range(scores.shape[1])]


def test_the_model_has_the_accuracy_on_record(tmp_path: Path) -> None:
    """From memory and from the folder: what the last evaluation says, class by class, of all 2,000 test images."""
    in_memory, written = played(), played(tmp_path / "run")
    from_folder = read_study(str(tmp_path / "run")).runs[0]
    assert isinstance(in_memory.trained, Weights)
    assert written.trained == from_folder.trained == tmp_path / "run"
    recorded = in_memory.records[-1].class_accuracy
    for run in (in_memory, written, from_folder):
        model = run.model()
        assert not model.training
        with torch.no_grad():
            assert accuracy_by_class(model(IMAGES), DATA.test_labels) == pytest.approx(recorded)
    first = in_memory.model()
    for parameter in first.parameters():
        parameter.data.zero_()  # the caller's own: the record is not changed by it
    assert accuracy_by_class(in_memory.model()(IMAGES), DATA.test_labels) == pytest.approx(recorded)


def test_runs_of_a_comparison_have_each_its_model(tmp_path: Path) -> None:
    how: dict[str, Any] = {"schedulers": ["fedteddi", "random"], "seeds": [0, 1], "data": tiny_data()}
    settings = tiny_settings(rounds=[2, 1, 0])
    here, there = compare(settings, **how), compare(settings, **how, out=tmp_path / "study")
    vectors = [weights_of(run).vector for run in here.runs]
    for run, vector in zip(there.runs, vectors, strict=True):
        assert torch.equal(nn.utils.parameters_to_vector(run.model().parameters()), vector)
    assert len({vector.numpy().tobytes() for vector in vectors}) == 4


def test_nothing_more_is_kept_on_disk_than_to_resume(tmp_path: Path) -> None:
    """One float32 a parameter for a finished run, beside text: w̃ of frames before has gone into the next one."""
    played(tmp_path / "run")
    size = sum(p.numel() for p in read_study(tmp_path / "run").runs[0].model().parameters())
    assert [file.name for file in (tmp_path / "run").glob("*.safetensors")] == ["checkpoint.safetensors"]
    with safe_open(tmp_path / "run" / "checkpoint.safetensors", framework="np") as file:
        large = [key for key in file.keys() if file.get_slice(key).get_shape() == [size]]  # noqa: SIM118
    assert large == ["weights"]


def test_an_unfinished_run_has_the_model_of_its_checkpoint(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    stopped = simulate(settings, data=tiny_data(), out=tmp_path / "run", time_limit_s=0.0)
    assert not stopped.finished
    untrained = simulate(settings.changed(rounds=[0, 0, 0]), data=tiny_data())
    assert torch.equal(weights_of(stopped).vector, weights_of(untrained).vector)


def test_a_checkpoint_of_before_says_nothing_of_inputs_and_the_data_set_does(tmp_path: Path) -> None:
    run = played(tmp_path / "run")
    expected = run.model()(IMAGES[:4])
    file = tmp_path / "run" / "checkpoint.safetensors"
    with safe_open(file, framework="pt") as checkpoint:
        facts = json.loads(checkpoint.metadata()["state"])
        tensors = {key: checkpoint.get_tensor(key) for key in checkpoint.keys()}  # noqa: SIM118
    del facts["inputs"]
    safetensors.torch.save_file(tensors, file, {"state": json.dumps(facts)})
    assert torch.equal(run.model()(IMAGES[:4]), expected)
    assert torch.equal(weights_of(run).inputs.mean, DATA.mean)


def test_closed_outputs_stay_closed() -> None:
    """With an expanding head, class 4 has no output before it appears: its score is -inf, as in training."""
    run = simulate(
        tiny_settings(rounds=[1, 1], training__head="expanding", scenario__arrivals=[]), data=tiny_data()
    )
    model, data = run.model(), tiny_data()
    assert isinstance(model, Opened)
    scores = model(data.normalised(data.test_images))
    assert torch.isneginf(scores).any(dim=0).tolist() == [False, False, False, True, True]
    recorded = np.array(run.records[-1].class_accuracy, dtype=float)
    np.testing.assert_allclose(accuracy_by_class(scores, data.test_labels), recorded)


def test_a_model_that_this_process_does_not_know_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def net(shape: Any, classes: int) -> nn.Module:  # noqa: ARG001
        return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

    simulate(
        tiny_settings(rounds=[1], scenario__arrivals=[]),
        training__model=net,
        data=tiny_data(),
        out=tmp_path / "run",
    )
    run = read_study(tmp_path / "run").runs[0]
    expected = run.model()(torch.ones(1, 1, 8, 8))
    monkeypatch.setattr("fedteddi.given._GIVEN", {})
    with pytest.raises(
        InputError, match=r"the run's model, python:net@\w+, is an object of the Python process"
    ):
        run.model()
    for given in (net, net(None, 5), lambda shape, classes: net(shape, classes)):
        assert torch.equal(run.model(given)(torch.ones(1, 1, 8, 8)), expected)
    with pytest.raises(
        InputError, match=r"the model mlp has 8\d{3} parameters, the run's has 325: give the model"
    ):
        run.model("mlp")


def test_what_has_no_weights_says_so(tmp_path: Path) -> None:
    run = simulate(tiny_settings(rounds=[1], scenario__arrivals=[]), data=tiny_data(), out=tmp_path / "run")
    with pytest.raises(InputError, match=r"random.* has no weights: they are in run folders"):
        RunRecord(run.settings.changed(name="random"), run.counts, run.records, True).model()
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    with pytest.raises(
        InputError, match=r"checkpoint\.safetensors cannot be read .*a run's weights are in it"
    ):
        run.model()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDTEDDI_CACHE", str(folder / "cache"))
        return played(folder / "run")


def onnx_scores(file: Path, inputs: np.ndarray) -> np.ndarray:
    """ONNX Runtime's answer, which knows nothing of PyTorch."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"inputs": inputs})
    return np.asarray(scores)


def test_a_pt_file_holds_the_weights_without_trusting_it(trained: RunRecord, tmp_path: Path) -> None:
    found = torch.load(trained.export(tmp_path / "model.pt"), weights_only=True)
    assert (found["model"], found["num_classes"], found["inputs"]["shape"]) == ("small-cnn", 10, [1, 28, 28])
    own = trained.model()
    for parameter in own.parameters():
        parameter.data.fill_(7.0)
    own.load_state_dict(found["state_dict"])
    assert torch.equal(own(IMAGES), trained.model()(IMAGES))


def test_a_safetensors_file_holds_the_weights_and_says_of_what(trained: RunRecord, tmp_path: Path) -> None:
    file = trained.export(str(tmp_path / "model.safetensors"))
    tensors = safetensors.torch.load_file(file)
    assert all(torch.equal(tensors[key], value) for key, value in trained.model().state_dict().items())
    with safe_open(file, framework="np") as opened:
        about = json.loads(opened.metadata()["fedteddi"])
    assert about["inputs"]["mean"] == DATA.mean.flatten().tolist()
    assert about["dataset"] == "fashion-mnist"


def test_an_onnx_file_answers_as_the_model_on_all_test_images(trained: RunRecord, tmp_path: Path) -> None:
    """Its inputs are pixels as the data set has them, from 0 to 255; the accuracy is the one on record."""
    file = trained.export(tmp_path / "model.onnx")
    pixels = DATA.test_images.float().numpy()
    scores = onnx_scores(file, pixels)
    np.testing.assert_allclose(scores, trained.model()(IMAGES).detach(), rtol=1e-4, atol=1e-4)
    recorded = trained.records[-1].class_accuracy
    assert accuracy_by_class(torch.from_numpy(scores), DATA.test_labels) == pytest.approx(recorded, abs=1e-9)
    np.testing.assert_allclose(onnx_scores(file, pixels[:1]), scores[:1], rtol=1e-4, atol=1e-4)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("model")] == ["model.onnx"]  # in one file


@pytest.mark.parametrize("model", ["paper-cnn", "mlp"])
def test_other_models_are_written_as_onnx(model: str, tmp_path: Path) -> None:
    run = played(rounds=[0, 0], training__pretrain_epochs=0, training__model=model)
    scores = onnx_scores(run.export(tmp_path / "model.onnx"), DATA.test_images[:50].float().numpy())
    np.testing.assert_allclose(scores, run.model()(IMAGES[:50]).detach(), rtol=1e-4, atol=1e-4)


def test_a_model_of_features_is_written_as_onnx(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(3, 2, size=(300, 6)), np.arange(300) % 5
    settings = tiny_settings(
        rounds=[1], scenario__arrivals=[], training__augment="none", training__model="mlp"
    )
    run = simulate(settings, data=(inputs, labels, inputs, labels))
    data = Dataset.from_arrays("same", inputs, labels, inputs, labels)
    scores = onnx_scores(run.export(tmp_path / "model.onnx"), inputs.astype(np.float32))
    np.testing.assert_allclose(
        scores, run.model()(data.normalised(data.test_images)).detach(), rtol=1e-4, atol=1e-4
    )


def test_what_cannot_be_written_says_why(
    trained: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InputError, match=r"ends in '\.onx' \(did you mean '\.onnx'\?\): choose one of \.pt, \.s"
    ):
        trained.export(tmp_path / "model.onx")
    with pytest.raises(InputError, match="there is no folder"):
        trained.export(tmp_path / "absent" / "model.pt")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(
        InputError, match=r"writing \.onnx needs onnxscript, .*: pip install 'fedteddi\[onnx\]'"
    ):
        trained.export(tmp_path / "model.onnx")
    assert list(tmp_path.glob("model*")) == []


def test_the_command_writes_and_says_what(trained: RunRecord, cli: Any, tmp_path: Path) -> None:
    folder = trained.trained
    assert isinstance(folder, Path)
    done: Outcome = cli("export", folder, tmp_path / "model.safetensors")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"{tmp_path}/model.safetensors: small-cnn of {trained.title}, 55,434 parameters, from inputs [n, 1, 28, 28] to"
        " scores [n, 10]\n"
    )
    assert len(safetensors.torch.load_file(tmp_path / "model.safetensors")) == 12
    refused = cli("export", folder.parent, tmp_path / "model.pt")
    assert refused.code == 2
    assert f"is not a run's folder: name one of its runs, such as {folder}" in refused.err
    assert "give a run's folder" in cli("export", tmp_path, tmp_path / "model.pt").err
