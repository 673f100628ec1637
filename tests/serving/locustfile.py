"""Users of three dialects for locust: `locust --headless -f tests/serving/locustfile.py --host URL`.

An answer has status 200 and the right text, or status 429; all else is a failure. The statistics count the
latter under names of their own.
"""

from locust import FastHttpUser, between, task

TEXT, TRANSLATION = "Where is the station?", "Wo ist der Bahnhof?"
REFUSED = " 429"  # after the name of a route


class Translating(FastHttpUser):
    """A user that asks again soon after each answer."""

    wait_time = between(0.0, 0.05)

    @task
    def own(self):
        self.ask("/api/v1/translate", {"text": TEXT}, lambda found: found["translations"][0]["text"])

    @task
    def openai(self):
        body = {"model": "en-de", "messages": [{"role": "user", "content": TEXT}]}
        self.ask("/v1/chat/completions", body, lambda found: found["choices"][0]["message"]["content"])

    @task
    def libretranslate(self):
        body = {"q": TEXT, "source": "en", "target": "de"}
        self.ask("/translate", body, lambda found: found["translatedText"])

    def ask(self, path, body, text):
        with self.client.post(path, json=body, catch_response=True) as response:
            if response.status_code == 429:
                response.request_meta["name"] = path + REFUSED
                response.success()
            elif response.status_code != 200:
                response.failure(f"status {response.status_code}: {response.text}")
            elif text(response.json()) != TRANSLATION:
                response.failure(f"another text: {response.text}")
