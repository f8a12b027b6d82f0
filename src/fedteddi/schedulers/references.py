"""Where the rules come from, ready to be cited."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A short mention and the BibTeX entry (empty where there is no paper)."""

    short: str
    bibtex: str = ""


FEDTEDDI = Reference(
    "Bai, Sun, Chen, Chen, Zhou, Niu, arXiv:2509.07342, 2025",
    """@misc{bai2025fedteddi,
  title = {{FedTeddi}: Temporal Drift and Divergence Aware Scheduling for Timely Federated Edge Learning},
  author = {Bai, Yuxuan and Sun, Yuxuan and Chen, Tan and Chen, Wei and Zhou, Sheng and Niu, Zhisheng},
  year = {2025},
  eprint = {2509.07342},
  archivePrefix = {arXiv}
}""",
)
FEDCGD = Reference(
    "Chen, Yan, Sun, Zhou, Niu, arXiv:2506.07581, 2025",
    """@misc{chen2025fedcgd,
  title = {{FedCGD}: Collective Gradient Divergence Optimized Scheduling for Wireless Federated Learning},
  author = {Chen, Tan and Yan, Jintao and Sun, Yuxuan and Zhou, Sheng and Niu, Zhisheng},
  year = {2025},
  eprint = {2506.07581},
  archivePrefix = {arXiv}
}""",
)
FED_CBS = Reference(
    "Zhang et al., ICML 2023",
    """@inproceedings{zhang2023fedcbs,
  title = {{Fed-CBS}: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via
           Class-Imbalance Reduction},
  author = {Zhang, Jianyi and Li, Ang and Tang, Minxue and Sun, Jingwei and Chen, Xiang and Zhang, Fan and
            Chen, Changyou and Chen, Yiran and Li, Hai},
  booktitle = {Proceedings of the 40th International Conference on Machine Learning},
  series = {Proceedings of Machine Learning Research},
  volume = {202},
  pages = {41354--41381},
  year = {2023}
}""",
)
POWER_OF_CHOICE = Reference(
    "Cho, Wang, Joshi, AISTATS 2022",
    """@inproceedings{cho2022biased,
  title = {Towards Understanding Biased Client Selection in Federated Learning},
  author = {Cho, Yae Jee and Wang, Jianyu and Joshi, Gauri},
  booktitle = {Proceedings of the 25th International Conference on Artificial Intelligence and Statistics},
  series = {Proceedings of Machine Learning Research},
  volume = {151},
  pages = {10351--10375},
  year = {2022}
}""",
)
UPDATE_AWARE = Reference(
    "Amiri, Gündüz, Kulkarni, Poor, IEEE TWC 20(6), 2021",
    """@article{amiri2021update,
  title = {Convergence of Update Aware Device Scheduling for Federated Learning at the Wireless Edge},
  author = {Amiri, Mohammad Mohammadi and G{\\"u}nd{\\"u}z, Deniz and Kulkarni, Sanjeev R. and
            Poor, H. Vincent},
  journal = {IEEE Transactions on Wireless Communications},
  volume = {20},
  number = {6},
  year = {2021},
  note = {arXiv:2001.10402}
}""",
)
BANDWIDTH = Reference(
    "Shi, Zhou, Niu, Jiang, Geng, IEEE TWC 20(1), 2021",
    """@article{shi2021joint,
  title = {Joint Device Scheduling and Resource Allocation for Latency Constrained Wireless Federated
           Learning},
  author = {Shi, Wenqi and Zhou, Sheng and Niu, Zhisheng and Jiang, Miao and Geng, Lu},
  journal = {IEEE Transactions on Wireless Communications},
  volume = {20},
  number = {1},
  year = {2021},
  note = {arXiv:2007.07174}
}""",
)
SCHEDULING_POLICIES = Reference(
    "Yang, Liu, Quek, Poor, IEEE TCOM 68(1), 2020",
    """@article{yang2020scheduling,
  title = {Scheduling Policies for Federated Learning in Wireless Networks},
  author = {Yang, Howard H. and Liu, Zuozhu and Quek, Tony Q. S. and Poor, H. Vincent},
  journal = {IEEE Transactions on Communications},
  volume = {68},
  number = {1},
  pages = {317--333},
  year = {2020},
  note = {arXiv:1908.06287}
}""",
)
AGE_OF_UPDATE = Reference(
    "after Yang, Arafa, Quek, Poor, ICASSP 2020",
    """@inproceedings{yang2020age,
  title = {Age-Based Scheduling Policy for Federated Learning in Mobile Edge Networks},
  author = {Yang, Howard H. and Arafa, Ahmed and Quek, Tony Q. S. and Poor, H. Vincent},
  booktitle = {IEEE International Conference on Acoustics, Speech and Signal Processing (ICASSP)},
  pages = {8743--8747},
  year = {2020},
  note = {arXiv:1910.14648}
}""",
)
BASELINE = Reference("the usual baseline")
OURS = Reference("this project, docs/fedteddi-plus.md")
IN_FEDTEDDI = Reference(f"baseline in {FEDTEDDI.short}", FEDTEDDI.bibtex)
