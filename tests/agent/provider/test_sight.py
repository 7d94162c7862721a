from __future__ import annotations

from agent.provider.sight import sees_images

SEEING = """
    gpt-4o gpt-4o-mini chatgpt-4o-latest openai/gpt-4.1-nano gpt-5 gpt-5.1-codex o1 o1-pro o3 o3-pro o4-mini
    claude-sonnet-4-5 anthropic/claude-opus-4.1 us.anthropic/claude-3-haiku gemini-2.5-pro google/gemini-3-pro grok-4
    qwen2.5-vl-72b-instruct Qwen/Qwen3-VL-8B qwen2.5vl:7b llava:13b pixtral-12b meta-llama/Llama-4-Scout gemma3:27b
    gemma-3-12b-it grok-2-vision internvl3-8b qwen3-omni-flash mistral-small-3.2-24b glm-4.5v glm-4v kimi-k2.5
    phi-4-multimodal-instruct llama-3.2-90b-vision-preview
"""
BLIND = """
    gpt-4 gpt-3.5-turbo gpt-oss-120b o1-mini o1-preview o3-mini deepseek-chat deepseek-v3.2 qwen3-coder
    qwen2.5-coder:32b llama3.1:70b kimi-k2-instruct glm-4.6 mistral-large-2411 codestral devstral demo scripted
    gemma3:1b gemma-3-270m phi-4 command-r television-7b
"""


def test_which_models_are_known_to_see_images() -> None:
    assert [model for model in SEEING.split() if not sees_images(model)] == []
    assert [model for model in BLIND.split() if sees_images(model)] == []
