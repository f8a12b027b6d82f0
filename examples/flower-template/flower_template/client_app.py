"""The node's side: an ordinary ClientApp with one mod."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedteddi.flower import report_first
from flower_template.task import HELD_OUT, NODE_SAMPLES, Loader, Net, evaluated, load_data, trained

app = ClientApp(mods=[report_first])


def _model_and_data(message: Message, context: Context) -> tuple[Net, tuple[Loader, Loader]]:
    model = Net()
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model, load_data(int(context.node_config["partition-id"]), int(context.run_config["batch-size"]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the node's data."""
    model, (training, _) = _model_and_data(message, context)
    learning_rate = float(message.content.config_records["config"]["lr"])  # type: ignore[arg-type]
    loss = trained(model, training, int(context.run_config["local-epochs"]), learning_rate)
    metrics = MetricRecord({"train_loss": loss, "num-examples": NODE_SAMPLES - HELD_OUT})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate on the node's held-out data."""
    model, (_, held_out) = _model_and_data(message, context)
    loss, accuracy = evaluated(model, held_out)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": HELD_OUT})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
