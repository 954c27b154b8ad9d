"""The use of each card by a queue, as a text."""

from scheduler.api.messages import card_summary, usage_note


def test_a_note_says_only_what_the_used_amount_does_not() -> None:
    assert usage_note({"used": "3", "inqueue": "0", "requested": "3"}) == ""
    assert usage_note({"used": "3", "inqueue": "1", "requested": "5", "borrowed": "2", "lent": "0"}) == (
        "1 inqueue, 5 requested, 2 borrowed"
    )


def test_a_summary_has_all_cards_and_leaves_out_what_is_malformed() -> None:
    card = {"quota": "3", "used": "3", "inqueue": "0", "requested": "5"}
    cards = {"NVIDIA-H200": card, "NVIDIA-H800": {"used": "0", "quota": "2"}, "other": "by hand"}
    assert card_summary(cards) == "NVIDIA-H200=3/3 (5 requested),NVIDIA-H800=0/2"
    totals = {"granted": "11", "existing": "10", "healthy": "9"}
    assert card_summary({"NVIDIA-H200": card | totals}) == "NVIDIA-H200=3/3 (5 requested)"
    assert card_summary({"NVIDIA-H200": card | totals | {"problem": "CardOverGranted"}}) == (
        "NVIDIA-H200=3/3 (5 requested, 11 granted, 10 existing, 9 healthy)"
    )
    assert card_summary(None) == card_summary([1]) == ""
