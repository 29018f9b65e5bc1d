"""An agent of Google ADK that reads a folder, its prompts compressed.

pip install '.[google-adk]' 'litellm[proxy]'
python with_google_adk.py --base-url http://127.0.0.1:8080/v1 --model MODEL
"""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from reader import arguments, compressor_for, task
from reader import read_file as read

import agora
from agora.integrations.google_adk import AgoraPlugin

asked = arguments(__doc__)


def read_file(name: str) -> str:
    """Return the text of a file of the folder."""
    return read(asked.folder, name)


async def run() -> None:
    """Run the agent once."""
    model = LiteLlm(model=f"openai/{asked.model}", api_base=asked.base_url, api_key=asked.api_key)
    agent = LlmAgent(name="reader", model=model, tools=[read_file])
    plugin = AgoraPlugin(compressor_for(asked))
    runner = InMemoryRunner(agent=agent, app_name="reader", plugins=[plugin])
    session = await runner.session_service.create_session(app_name="reader", user_id="u")
    words = types.Content(role="user", parts=[types.Part(text=task(asked.folder, asked.files))])
    events = 0
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=words):
        events += 1
        if event.is_final_response() and event.content and event.content.parts:
            print(event.content.parts[-1].text)
    print(agora.savings(plugin))
    print(f"{events} events in the session")


asyncio.run(run())
