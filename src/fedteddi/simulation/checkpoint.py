"""A run's state on disk: written in one go, read back to the bit."""

import hashlib
import json
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fedteddi.aggregation import State
from fedteddi.errors import InputError
from fedteddi.results.folder import RunFolder, read_records, write_atomically
from fedteddi.schedulers.memory import as_json, from_json
from fedteddi.schedulers.schedule import remembers
from fedteddi.simulation.run import Run

MIXES = ("previous_mix", "current_mix", "first_mix")  # of a state: a row for every client, so kept as arrays


def save_checkpoint(run: Run) -> None:
    """Write all a run needs to go on, in one file, in one go."""
    if run.folder is None:
        return
    rounds_bytes, timing_bytes = run.folder.sizes()
    state = run.state
    tensors = {"weights": state.weights.cpu()}
    if run.best_weights is not None:
        tensors["best_weights"] = run.best_weights.cpu()
    if state.good is not None:
        tensors["good"] = state.good.cpu().clone()  # it may be the same model
    for name in MIXES:
        if mixes := getattr(state, name):
            tensors[f"{name}.clients"] = torch.tensor([*mixes])
            tensors[f"{name}.shares"] = torch.from_numpy(np.array([*mixes.values()]))
    facts = {
        "frame": state.frame,
        "round": state.round,
        "rounds_done": state.rounds_done,
        "class_norm": state.class_norm.tolist(),
        "classes_seen": state.classes_seen.tolist(),
        "times_scheduled": state.times_scheduled.tolist(),
        "not_finite": sorted(state.not_finite),
        "gradient_std": state.gradient_std,
        "num_samples": list(state.num_samples.items()),
        "seen_before": sorted(state.seen_before),
        "loss_mix": None if state.loss_mix is None else state.loss_mix.tolist(),
        "suspects": [*state.suspects.items()],
        "quarantine": [*state.quarantine.items()],
        "alone": list(state.alone),
        "good_aggregation": _packed(state.good_aggregation, "good_aggregation", tensors),
        "aggregation": _packed(state.aggregation, "aggregation", tensors),
        "best_aggregation": _packed(run.best_aggregation, "best_aggregation", tensors),
        "best_loss": run.best_loss if np.isfinite(run.best_loss) else None,
        "inputs": run.inputs.as_json(),  # so that the model can be used without the data
        "finished": run.finished,
        "rounds_bytes": rounds_bytes,
        "timing_bytes": timing_bytes,
    }
    if remembers(run.rule):
        facts["scheduler_state"] = as_json(state.scheduler_state)
    text = json.dumps(facts)
    about = {"state": text, "sha256": _checksum(text, tensors)}
    write_atomically(run.folder.checkpoint, safetensors.torch.save(tensors, about))


def _mixes(name: str, facts: dict[str, Any], tensors: dict[str, Tensor]) -> dict[int, np.ndarray]:
    """Return mixes by client; checkpoints of earlier versions hold them as text."""
    if name in facts:
        return {int(n): np.array(mix) for n, mix in facts[name].items()}
    if f"{name}.clients" not in tensors:
        return {}
    clients, shares = (tensors[f"{name}.{part}"] for part in ("clients", "shares"))
    return dict(zip(clients.tolist(), shares.numpy(), strict=True))


def _packed(state: State, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return a state as JSON; its vectors go to `tensors` under names that begin with `name`."""
    if isinstance(state, dict):
        return {"dict": {key: _packed(part, name, tensors) for key, part in state.items()}}
    if isinstance(state, list):
        return {"list": [_packed(part, name, tensors) for part in state]}
    own = f"{name}.{len(tensors)}"  # as many as there are: no name is taken twice
    if isinstance(state, np.ndarray):
        tensors[own] = torch.from_numpy(np.array(state, order="C"))
        return {"array": own}
    if isinstance(state, Tensor):
        tensors[own] = state.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": own}
    return state


def _unpacked(packed: Any, tensors: dict[str, Tensor], device: torch.device) -> State:
    """Return the state that was packed; tensors lie on the given device."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "dict":
        return {key: _unpacked(part, tensors, device) for key, part in content.items()}
    if kind == "list":
        return [_unpacked(part, tensors, device) for part in content]
    return tensors[content].numpy() if kind == "array" else tensors[content].to(device)


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    """Return a checksum of a checkpoint, whose format has none."""
    digest = hashlib.sha256(text.encode())
    for key in sorted(tensors):
        digest.update(key.encode() + tensors[key].numpy().tobytes())
    return digest.hexdigest()


def save_failure(run: Run) -> None:
    """Write that a run has failed, after what it had reached: either both are there, or it will fail once more."""
    save_checkpoint(run)
    if run.folder is not None and run.failure is not None:
        run.folder.fail(run.failure)


def load_checkpoint(run: Run, folder: RunFolder) -> None:
    """Bring a fresh run to where its checkpoint was written."""
    try:
        with safetensors.safe_open(folder.checkpoint, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            about = file.metadata() or {}
        facts, state = json.loads(about["state"]), run.state
        if about.get("sha256") != _checksum(about["state"], tensors):
            raise ValueError("it is damaged: its checksum does not fit")
        if tensors["weights"].shape != state.weights.shape:
            raise ValueError("its model has another size")
        folder.take_up(run.settings, facts["rounds_bytes"], facts["timing_bytes"])
        run.records, run.failure = read_records(folder.path), folder.failure()
    except InputError:
        folder.close()
        raise
    except Exception as error:
        folder.close()
        raise InputError(
            f"{folder.checkpoint} cannot be used ({error}): remove {folder.path} and start that run again"
        ) from None
    device = state.weights.device
    state.weights = tensors["weights"].to(device)
    best = tensors.get("best_weights")
    run.best_weights = None if best is None else best.to(device)
    # Checkpoints before these were kept: nothing was remembered.
    state.aggregation = _unpacked(facts.get("aggregation"), tensors, device)
    run.best_aggregation = _unpacked(facts.get("best_aggregation"), tensors, device)
    run.best_loss = float("inf") if facts["best_loss"] is None else facts["best_loss"]
    state.frame, state.round, state.rounds_done = facts["frame"], facts["round"], facts["rounds_done"]
    state.class_norm = np.array(facts["class_norm"])
    state.classes_seen = np.array(facts["classes_seen"], dtype=bool)
    state.times_scheduled = np.array(facts["times_scheduled"], dtype=np.int64)
    state.previous_mix, state.current_mix, state.first_mix = (_mixes(name, facts, tensors) for name in MIXES)
    state.num_samples = dict(facts.get("num_samples", ()))
    state.seen_before = frozenset(facts.get("seen_before", ()))
    mix = facts.get("loss_mix")
    state.loss_mix = None if mix is None else np.array(mix)
    state.not_finite = frozenset(facts.get("not_finite", ()))  # checkpoints before this was kept: nobody
    state.gradient_std = facts.get("gradient_std", 0.0)
    # Checkpoints before these were kept: nobody was suspected of anything.
    state.good = tensors["good"].to(device) if "good" in tensors else None
    state.good_aggregation = _unpacked(facts.get("good_aggregation"), tensors, device)
    state.suspects, state.quarantine = dict(facts.get("suspects", ())), dict(facts.get("quarantine", ()))
    state.alone = tuple(facts.get("alone", ()))
    if "scheduler_state" in facts:  # else the rule had no memory then
        state.scheduler_state = from_json(facts["scheduler_state"])
    run.finished = facts["finished"]
    run.folder = folder
