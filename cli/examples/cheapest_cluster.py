"""Which of some clusters trains a model for the least money in time?

    PYTHONPATH=build/release/cli/python python3 cli/examples/cheapest_cluster.py [--plot FILE.png]

Each cluster is planned; what does not fit is said.  With matplotlib the costs are drawn, with the
intervals that hold them in nine of ten runs.
"""

import argparse

import llmsim

MODEL, TOKENS, DEADLINE_DAYS = "llama3-8b", "100B", 30
CLUSTERS = [("h100", 16), ("h100", 64), ("mi300x", 32), ("a100", 64)]


def asked(hardware, gpus):
    """The answer for one cluster: (days, USD, (low, high) USD, layout), or None where nothing fits."""
    try:
        answer = llmsim.plan(model=MODEL, hardware=hardware, gpus=gpus, tokens=TOKENS)
    except llmsim.DoesNotFit:
        return None
    job, best = answer["job"], answer["plans"][0]
    return job["wall_time_s"] / 86400, job["cost_usd"], job["cost_interval_usd"], best["strategy"]


def drawn(answers, path):
    """A bar for each cluster, with its interval."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [f"{gpus} x {hardware}" for (hardware, gpus), _ in answers]
    costs = [cost for _, (_, cost, _, _) in answers]
    errors = [[c - low for c, (_, (_, _, (low, _), _)) in zip(costs, answers)],
              [high - c for c, (_, (_, _, (_, high), _)) in zip(costs, answers)]]
    figure, axes = pyplot.subplots()
    axes.bar(names, costs, yerr=errors, capsize=4)
    axes.set_ylabel(f"USD for {TOKENS} tokens of {MODEL}")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="draw the costs to a file; needs matplotlib")
    options = parser.parse_args()
    answers = [(cluster, asked(*cluster)) for cluster in CLUSTERS]
    for (hardware, gpus), answer in answers:
        if answer is None:
            print(f"{gpus:4} x {hardware:7} does not fit")
            continue
        days, cost, (low, high), layout = answer
        late = "" if days <= DEADLINE_DAYS else ", too late"
        print(f"{gpus:4} x {hardware:7} {days:6.1f} days{late:10} {cost:9,.0f} USD ({low:,.0f} to {high:,.0f})  {layout}")
    in_time = [(answer[1], cluster) for cluster, answer in answers if answer and answer[0] <= DEADLINE_DAYS]
    if in_time:
        cost, (hardware, gpus) = min(in_time)
        print(f"cheapest in {DEADLINE_DAYS} days: {gpus} x {hardware}, {cost:,.0f} USD")
    if options.plot:
        drawn([one for one in answers if one[1]], options.plot)


if __name__ == "__main__":
    main()
