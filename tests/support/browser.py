"""A headless Chromium, or the reason why there is none."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Start a browser that keeps a record of what it fetches and of what its console says."""
    if not DRIVER or not CHROMIUM:
        pytest.skip("needs chromium and chromedriver (Debian: apt install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """What the tests ask of a browser."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, page: Path, width: int) -> None:
        """Show a page in a window of some width."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get(page.as_uri())

    def ask(self, script: str) -> Any:
        """Return what a line of JavaScript gives."""
        return self.driver.execute_script(f"return {script}")

    def complaints(self) -> list[str]:
        """What the console said since the last question."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def fetched(self) -> set[str]:
        """The addresses that were asked for since the last question, but for those that hold their own data."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return {address for address in sent if not address.startswith("data:")}

    def drag(self, value: int) -> None:
        """Move the slider, as a user's hand does."""
        self.driver.execute_script(
            "const s = document.getElementById('generation'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input', {bubbles: true}))",
            value,
        )
