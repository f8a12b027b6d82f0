"""The server's side: an ordinary ServerApp whose strategy is wrapped."""

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedteddi.flower import Scheduled
from flower_template.task import Net, evaluated, load_test_data

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the strategy; say who uploaded."""
    config = context.run_config
    strategy = Scheduled(
        FedAvg(fraction_evaluate=float(config["fraction-evaluate"])),
        scheduler=str(config["scheduler"]),
        uploads=float(config["uploads"]),
        rest=int(config["rest"]),
        select_first=bool(config["select-first"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
        num_rounds=int(config["num-server-rounds"]),
        evaluate_fn=global_evaluate,
    )
    for one in strategy.rounds:
        print(
            f"round {one.round}: {len(one.uploaded)} of {len(one.reported)} uploaded;"
            f" {one.report_bytes} bytes of reports, {one.upload_bytes} of uploads; failures: {one.failures or 'none'}"
        )


def global_evaluate(_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Evaluate the model on the test images."""
    model = Net()
    model.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = evaluated(model, load_test_data())
    return MetricRecord({"accuracy": accuracy, "loss": loss})
