"""What names a version of a model, and what does not."""

from __future__ import annotations

import pytest

from agggen_platform.registry.address import ModelAddress, RegistryError, is_model_address, parse_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("models:/agggen/3", ModelAddress("agggen", version="3")),
        ("agggen/12", ModelAddress("agggen", version="12")),
        ("models:/web.nlg-2@champion", ModelAddress("web.nlg-2", alias="champion")),
        ("agggen@shadow_1", ModelAddress("agggen", alias="shadow_1")),
    ],
)
def test_an_address_names_a_version_or_an_alias(address: str, expected: ModelAddress) -> None:
    assert parse_address(address) == expected
    assert parse_address(str(expected)) == expected
    assert is_model_address(str(expected))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("models:/agggen", "names no version of a model"),
        ("models:/agggen/latest", "names no version"),
        ("models:/agggen/0", "names no version"),
        ("models:/agggen/1/bundle", "names no version"),
        ("models:/@champion", "a model's name is made of"),
        ("models:/a'b@champion", "a model's name is made of"),
        ("models:/agggen@Champion", "an alias is a lower-case word"),
        ("models:/agggen@v2", "an alias is a lower-case word"),
        (f"models:/agggen@{'a' * 64}", "an alias is a lower-case word"),
    ],
)
def test_an_invalid_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message) as raised:
        parse_address(address)
    assert raised.value.exit_code == 8
