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


def _off(records: Records) -> list[dict[str, Any]]:
    return [each for each in records if each.get("true", {}).get("off", False)]


def _fine(records: Records) -> list[dict[str, Any]]:
    return [each for each in records if "true" in each and not each["true"]["off"]]


def _called(records: Records, outcome: str) -> list[dict[str, Any]]:
    return [each for each in records if each["outcome"] == outcome]


def _beyond(records: Records, whats: Sequence[str] = ("mean", "sd")) -> tuple[int, int, float]:
    """Return how many corrected moments are beyond three stated errors, of how many, the worst."""
    of_all = [
        each["corrected"]["z"][what] for each in records if each.get("corrected") for what in whats
    ]
    worst = max((abs(z[2]) for z in of_all), default=0.0)
    return sum(z[1] for z in of_all), sum(z[0] for z in of_all), worst


def _beyond_of_scales(records: Records) -> tuple[int, int, float]:
    found = [
        abs(z)
        for each in records
        if each.get("corrected")
        for leaf in each["corrected"]["scales"].values()
        for z in leaf
    ]
    return sum(z > 3 for z in found), len(found), max(found, default=0.0)


def _percent(found: tuple[int, int, float]) -> str:
    beyond, count, worst = found
    return f"{100 * beyond / max(count, 1):.2f} % of {count}, worst {worst:.1f}"


def solved_models(records: Records, form: str) -> tuple[int, int]:
    """Return how many models of a form are solved, and of how many.

    One is solved if its draws are right and called right, with a plan that is trusted, by all keys.
    """
    of_form = [each for each in records if each["part"] == "solved" and each["model"][-1] == form]
    bad = {each["model"] for each in of_form if not _is_right(each) or each["true"]["off"]}
    names = {each["model"] for each in of_form}
    return len(names - bad), len(names)


def _total(record: dict[str, Any]) -> float:
    given = record.get("extrapolated")
    return given["seconds"] if given else sum(record["seconds"].values())


def over_nuts(records: Records) -> list[tuple[float, str]]:
    """Return seconds of plan and run over those of NUTS in the same form, with names, sorted."""
    peers = {each["model"]: _total(each) for each in records if each["part"] == "nuts"}
    return sorted(
        (
            (each["seconds"]["plan"] + each["seconds"]["sample"]) / peers[each["model"]],
            each["model"],
        )
        for each in records
        if each["part"] == "solved" and each["outcome"] != "refused" and each["model"] in peers
    )


def text(records: Records) -> str:
    """Return the table, and what is behind it."""
    judged = [each for each in records if each["part"] == "judged"]
    solved = [each for each in records if each["part"] == "solved"]
    exact = [each for each in judged if each["way"] == "exact"]
    lines = ["| | measured | goal | floor |", "|---|---|---|---|"]

    def row(name: str, measured: str, goal: str, floor: str) -> None:
        lines.append(f"| {name} | {measured} | {goal} | {floor} |")

    for name, given in (("given draws", judged), ("runs", solved)):
        off = _off(given)
        faults = _share(len(_called(off, "right")), len(off))
        row(f"{name} off by more than 0.12 sd or 7 %: called right", faults, "0", "0 of 60")
    right = [*exact, *_fine(solved)]
    alarms = _share(len(_called(right, "wrong")), len(right))
    row("exact draws and right runs called wrong", alarms, "0", "1 of 100")
    row("exact draws called right", _share(len(_called(exact, "right")), len(exact)), "", "")
    little = [each for each in _fine(judged) if each["way"] != "exact"]
    alarms = _share(len(_called(little, "wrong")), len(little))
    row("draws biased by less, called wrong", alarms, "", "")
    for name, given in (("exact draws", exact), ("all given draws", judged), ("runs", solved)):
        row(f"{name}: beyond 3 stated errors", _percent(_beyond(given)), "≤ 2 %, 5", "≤ 3 %, 8")
        row(f"{name}: scales alone", _percent(_beyond_of_scales(given)), "≤ 2 %, 5", "≤ 3 %, 8")
    for form, name, floor in (("c", "centred", "4 of 5"), ("n", "non-centred", "")):
        row(f"{name} hierarchies solved", _share(*solved_models(solved, form)), "all", floor)
    ratios = over_nuts(records)
    middle = f"{ratios[len(ratios) // 2][0]:.2f}" if ratios else "not measured"
    worst = f", worst {ratios[-1][0]:.2f} ({ratios[-1][1]})" if ratios else ""
    row("time over NUTS at an ESS of 1,000: median", middle + worst, "0.8", "1.3")
    behind = [("fault", _called(_off(judged) + _off(solved), "right"))]
    behind += [("alarm", _called(right, "wrong"))]
    behind += [("refused", [each for each in solved if each["outcome"] == "refused"])]
    for name, found in behind:
        lines += [f"{name}: {line(each)}" for each in found]
    return "\n".join(lines)
