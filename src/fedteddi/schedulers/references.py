"""Where the rules come from, ready to be cited: the entries are in `references.bib`."""

import re
from dataclasses import dataclass
from importlib.resources import files

_BIB = files("fedteddi.schedulers").joinpath("references.bib").read_text(encoding="utf-8")
_ENTRIES = {key: entry for entry, key in re.findall(r"^(@\w+\{(\w+),.*?^\})", _BIB, re.DOTALL | re.MULTILINE)}


@dataclass(frozen=True)
class Reference:
    """A short mention and the BibTeX: entries with an empty line between them, or none where there is no paper."""

    short: str
    bibtex: str = ""


FEDTEDDI = Reference("Bai, Sun, Chen, Chen, Zhou, Niu, arXiv:2509.07342, 2025", _ENTRIES["bai2025fedteddi"])
FEDCGD = Reference("Chen, Yan, Sun, Zhou, Niu, arXiv:2506.07581, 2025", _ENTRIES["chen2025fedcgd"])
FED_CBS = Reference("Zhang et al., ICML 2023", _ENTRIES["zhang2023fedcbs"])
POWER_OF_CHOICE = Reference("Cho, Wang, Joshi, AISTATS 2022", _ENTRIES["cho2022biased"])
UPDATE_AWARE = Reference("Amiri, Gündüz, Kulkarni, Poor, IEEE TWC 20(6), 2021", _ENTRIES["amiri2021update"])
BANDWIDTH = Reference("Shi, Zhou, Niu, Jiang, Geng, IEEE TWC 20(1), 2021", _ENTRIES["shi2021joint"])
SCHEDULING_POLICIES = Reference(
    "Yang, Liu, Quek, Poor, IEEE TCOM 68(1), 2020", _ENTRIES["yang2020scheduling"]
)
AGE_OF_UPDATE = Reference("after Yang, Arafa, Quek, Poor, ICASSP 2020", _ENTRIES["yang2020age"])
BASELINE = Reference("the usual baseline")
OURS = Reference("this project, docs/fedteddi-plus.md")
IN_FEDTEDDI = Reference(f"baseline in {FEDTEDDI.short}", FEDTEDDI.bibtex)
ACTIVE = Reference("Goetz et al., arXiv:1909.12641, 2019", _ENTRIES["goetz2019active"])
OORT = Reference("Lai, Zhu, Madhyastha, Chowdhury, OSDI 2021", _ENTRIES["lai2021oort"])
TIFL = Reference("Chai et al., HPDC 2020", _ENTRIES["chai2020tifl"])
ENERGY_QUEUES = Reference(
    "after Sun, Zhou, Niu, Gündüz, IEEE JSAC 40(1), 2022, and Xu, Wang, IEEE TWC 20(2), 2021",
    _ENTRIES["sun2022dynamic"] + "\n\n" + _ENTRIES["xu2021client"],
)
DIVFL = Reference("Balakrishnan et al., ICLR 2022", _ENTRIES["balakrishnan2022diverse"])
FEDCOR = Reference("Tang et al., CVPR 2022", _ENTRIES["tang2022fedcor"])
FEDCS = Reference("after Nishio, Yonetani, ICC 2019", _ENTRIES["nishio2019fedcs"])
MINIMUM_LATENCY = Reference(f"after {BANDWIDTH.short}", BANDWIDTH.bibtex)
PROPORTIONAL_FAIR = Reference(
    f"{SCHEDULING_POLICIES.short}; Viswanath, Tse, Laroia, IEEE TIT 48(6), 2002",
    f"{SCHEDULING_POLICIES.bibtex}\n\n{_ENTRIES['viswanath2002opportunistic']}",
)
