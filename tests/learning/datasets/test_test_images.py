"""Judging by a part of the test images: the same part for everyone."""

import torch

from fedteddi.simulation.laboratory import Laboratory
from small_world import tiny_data, tiny_settings


def test_a_part_of_the_test_images_is_fixed_and_0_means_all() -> None:
    data = tiny_data()
    part = data.with_test_images(30)
    assert len(part.test_labels) == len(part.test_images) == 30
    assert len(set(part.test_labels.tolist())) == data.num_classes  # drawn over all classes, as they fall
    assert torch.equal(part.test_images, tiny_data().with_test_images(30).test_images)
    assert torch.equal(part.train_images, data.train_images)
    assert data.with_test_images(0) is data.with_test_images(10_000) is data


def test_the_laboratory_judges_by_the_part() -> None:
    """30 of 100 images: every class accuracy is a multiple of 1 over that class's share of them."""
    settings = tiny_settings(evaluation__test_images=30)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    laboratory.advance([run])
    asked = torch.bincount(tiny_data().with_test_images(30).test_labels)
    right = torch.tensor(run.records[0].class_accuracy) * asked
    torch.testing.assert_close(right, right.round())
