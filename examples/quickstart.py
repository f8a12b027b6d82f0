"""FedTeddi against Random in a few lines: two short runs on the embedded images (about 40 seconds on two cores)."""

import fedteddi

study = fedteddi.compare(schedulers=["fedteddi", "random"], seeds=[0], rounds=[0, 20])
curves = study.curves()
last = curves[curves["round"] == 20].set_index("scheduler")
print(last[["balanced", "global", "old", "new"]].round(3))
rounds = study.table(
    "rounds_to_balanced", "rounds_to_global", targets=[0.65, 0.7]
)  # numbers, as a data frame
print(rounds.display().to_string(index=False))
study.accuracy_figure(frame=1).savefig("accuracy.png")  # figure 3 of the paper
for run in study.runs:
    print(run.scheduler, "reached 65 % balanced accuracy in round", run.rounds_to(1, 0.65, "balanced"))
