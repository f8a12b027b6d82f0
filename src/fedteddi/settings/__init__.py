"""One experiment as validated data: TOML in, TOML out. A file for each group of sections; keys describe themselves."""

from fedteddi.settings.estimates import EstimateSettings, EvaluationSettings
from fedteddi.settings.experiment import Settings, on_fleet, override, parse_settings
from fedteddi.settings.experiments import EXPERIMENTS, load_experiment
from fedteddi.settings.files import read_settings, write_settings
from fedteddi.settings.key import Positive, Section
from fedteddi.settings.radio import RadioSettings
from fedteddi.settings.scenario import Arrival, ScenarioSettings
from fedteddi.settings.server import FleetSettings, PrivacySettings, ServerSettings
from fedteddi.settings.training import TrainingSettings

__all__ = [
    "EXPERIMENTS",
    "Arrival",
    "EstimateSettings",
    "EvaluationSettings",
    "FleetSettings",
    "Positive",
    "PrivacySettings",
    "RadioSettings",
    "ScenarioSettings",
    "Section",
    "ServerSettings",
    "Settings",
    "TrainingSettings",
    "load_experiment",
    "on_fleet",
    "override",
    "parse_settings",
    "read_settings",
    "write_settings",
]
