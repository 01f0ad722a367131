"""What the records say: the lines of the table."""

from collections.abc import Sequence
from typing import Any

Records = Sequence[dict[str, Any]]


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def line(record: dict[str, Any]) -> str:
    """Return a record in short."""
    true, corrected = record.get("true"), record.get("corrected")
    told = [record["part"], record["model"], record.get("way", ""), str(record["key"])]
    told += [record.get("outcome", ""), record.get("verdict", record.get("says", ""))[:90]]
    if true:
        told.append(str(true.get("scales", true)))
    if corrected:
        worst = [corrected["z"][what] for what in ("mean", "sd")]
        told.append(f"errors off {worst[0][2]} {worst[1][2]}, scales {corrected['scales']}")
    return " | ".join([*told, str(record.get("seconds", ""))])


def _is_right(record: dict[str, Any]) -> bool:
    return record["outcome"] == "right" and record.get("is_trusted", True)


def of_outcomes(records: Records, name: str) -> list[str]:
    """Return lines of what is called right and what is not."""
    known = [each for each in records if "true" in each]
    off = [each for each in known if each["true"]["off"]]
    fine = [each for each in known if not each["true"]["off"]]
    faults = [each for each in off if each["outcome"] == "right"]
    trusted = [each for each in off if _is_right(each)]
    alarms = [each for each in fine if each["outcome"] == "wrong"]
    unsure = [each for each in fine if each["outcome"] == "unsure"]
    found = [
        f"{name}: off by more than 0.12 sd or 7 %, called right: {_share(len(faults), len(off))}",
        f"{name}: not off, called wrong: {_share(len(alarms), len(fine))}; unsure {len(unsure)}",
    ]
    if any("is_trusted" in each for each in known):
        found.append(f"{name}: off, called right by a trusted plan: {len(trusted)}")
    found += [f"    fault: {line(each)}" for each in faults]
    return found + [f"    alarm: {line(each)}" for each in alarms]


def of_errors(records: Records, name: str) -> list[str]:
    """Return how many corrected moments are beyond three of the errors that are stated."""
    known = [each for each in records if each.get("corrected")]
    lines = []
    for what in ("mean", "sd"):
        of_all = [each["corrected"]["z"][what] for each in known]
        count, beyond = sum(z[0] for z in of_all), sum(z[1] for z in of_all)
        if count:
            worst = max(of_all, key=lambda z: abs(z[2]))
            share = f"{100 * beyond / count:.2f} % of {count}"
            lines.append(f"{name}: {what}s beyond 3 stated errors {share}, worst {worst[2:]}")
    of_scales = [
        abs(z) for each in known for leaf in each["corrected"]["scales"].values() for z in leaf
    ]
    if of_scales:
        beyond = sum(z > 3 for z in of_scales)
        share = f"{100 * beyond / len(of_scales):.1f} % of {len(of_scales)}"
        lines.append(f"{name}: of scales and their logarithms {share}, worst {max(of_scales)}")
    return lines


def _total(record: dict[str, Any]) -> float:
    given = record.get("extrapolated")
    return given["seconds"] if given else sum(record["seconds"].values())


def of_solved(records: Records) -> list[str]:
    """Return how many are solved, and the time over NUTS."""
    solved = [each for each in records if each["part"] == "solved"]
    lines = []
    for form, name in (("c", "centred"), ("n", "non-centred")):
        of_form = [each for each in solved if each["model"].endswith(f"_{form}")]
        right = [each for each in of_form if _is_right(each) and not each["true"]["off"]]
        names = {each["model"] for each in of_form}
        all_right = names - {each["model"] for each in of_form if each not in right}
        lines.append(
            f"{name} hierarchies solved: {_share(len(all_right), len(names))}, "
            f"runs {_share(len(right), len(of_form))}"
        )
    peers = {each["model"]: each for each in records if each["part"] == "nuts"}
    ratios = []
    for pair in sorted({each["model"][:-2] for each in solved}):
        best = (
            min((_total(peers[name]), name) for name in (f"{pair}_c", f"{pair}_n") if name in peers)
            if any(f"{pair}_{form}" in peers for form in "cn")
            else None
        )
        for each in solved:
            if best and each["model"][:-2] == pair and each["outcome"] != "refused":
                time = each["seconds"]["plan"] + each["seconds"]["sample"]
                of_same = peers.get(each["model"])
                same = time / _total(of_same) if of_same else None
                ratios.append((time / best[0], same, each["model"], each["key"]))
    if ratios:
        middle = sorted(ratio[0] for ratio in ratios)[len(ratios) // 2]
        worst = max(ratios)
        lines.append(
            f"time of plan and run over NUTS (better form, ESS 1,000): median {middle:.2f}, "
            f"worst {worst[0]:.2f} ({worst[2]}, key {worst[3]})"
        )
        known = sorted(ratio[1] for ratio in ratios if ratio[1] is not None)
        if known:
            lines.append(
                f"    over NUTS in the same form: median {known[len(known) // 2]:.2f}, worst "
                f"{known[-1]:.2f}"
            )
    return lines


def text(records: Records) -> str:
    """Return the whole table."""
    judged = [each for each in records if each["part"] == "judged"]
    exact = [each for each in judged if each["way"] == "exact"]
    lines = []
    if judged:
        lines += of_outcomes(judged, "judged")
        wrong = sum(each["outcome"] == "wrong" for each in exact)
        lines.append(f"judged: exact draws called wrong: {_share(wrong, len(exact))}")
        lines += of_errors(exact, "judged, exact")
        lines += of_errors([each for each in judged if each["way"] != "exact"], "judged, others")
    solved = [each for each in records if each["part"] == "solved"]
    if solved:
        lines += of_outcomes(solved, "solved") + of_errors(solved, "solved") + of_solved(records)
    return "\n".join(lines)
