"""Crontabs read as cron reads them, and the schedules that their lines become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from timewheel.cli.crontab import Crontab, Format, TooLarge, read, split_percent, variable_of
from timewheel.cli.crontab_schedules import program_of, schedules_of
from timewheel.targets.shell import ShellTarget


def crontab(text: str | bytes, *, system: bool = False, zone: str = "UTC", owner: str | None = None) -> Crontab:
    """Read where one may be `me` and `root` only."""
    data = text.encode() if isinstance(text, str) else text
    return read(data, Format(system, zone, owner, lambda user: user in ("me", "root")))


def only(text: str, **form: Any) -> Any:
    found = crontab(text, **form)
    assert (found.left, len(found.entries)) == ([], 1), found
    return found.entries[0]


def reason(text: str | bytes, **form: Any) -> str:
    found = crontab(text, **form)
    assert (found.entries, len(found.left)) == ([], 1), found
    return found.left[0].reason


# ---- lines -----------------------------------------------------------------------------------------------------------


def test_comments_and_blank_lines_are_nothing() -> None:
    assert crontab("\n  \t\n# * * * * * no\n   # neither\n\r\n") == Crontab([], [], [])


@pytest.mark.parametrize(
    ("line", "expr", "command"),
    [
        ("*/5 * * * * run  it", "*/5 * * * *", "run  it"),
        ("0\t9\t*\t*\tmon-fri\trun", "0 9 * * MON-FRI", "run"),
        ("  17 *  * * *   cd / && run-parts x  ", "17 * * * *", "cd / && run-parts x"),
        ("@daily run", "@daily", "run"),
        ("@midnight\trun", "@midnight", "run"),
        ("0 0 * * 7 run # not a comment", "0 0 * * 7", "run # not a comment"),
        ("09,39 * * * * run\r", "09,39 * * * *", "run"),
        ("* * * * * A=b run", "* * * * *", "A=b run"),
    ],
)
def test_a_line_is_a_rule_and_a_command(line: str, expr: str, command: str) -> None:
    entry = only(line)
    assert (entry.rule.expr, entry.rule.tz, entry.command, entry.user, entry.stdin) == (
        expr,
        "UTC",
        command,
        None,
        None,
    )
    assert (entry.line, entry.shell, entry.env, entry.jitter_s) == (1, "/bin/sh", {}, 0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("@reboot run", "no time"),
        ("@sometimes run", "@sometimes"),
        ("@every 5m run", "not understood"),
        ("61 * * * * run", "minute"),
        ("* * * * run", "day of week"),
        ("nonsense", "five fields"),
        ("* * * * *", "no command"),
        ("@daily", "no command"),
        ("0 0 31 2 * run", "never runs"),
        ("0~59 * * * * run", "minute"),
        ("-*/5 * * * * run", "minute"),
        ("A='b' c", "quotes"),
        ("A='b", "quotes"),
        ('"A" b', "five fields"),
        ("* * * ٣ * run", "printable ASCII"),
        ("RANDOM_DELAY=soon", "minutes"),
        ("RANDOM_DELAY=9999", "minutes"),
    ],
)
def test_what_cannot_be_converted_is_listed_with_the_reason(line: str, said: str) -> None:
    assert said in reason(line)


def test_a_bad_line_harms_no_other_and_keeps_its_number() -> None:
    found = crontab(b"* * * * * one\nbad\n\xff\xfe * *\n* * * * * two\n@reboot three\n")
    assert [(entry.line, entry.command) for entry in found.entries] == [(1, "one"), (4, "two")]
    assert [(left.line, left.text) for left in found.left] == [
        (2, "bad"),
        (3, "\ufffd\ufffd * *"),
        (5, "@reboot three"),
    ]


def test_a_file_beyond_all_measure_is_refused_as_a_whole() -> None:
    for data in (b"#" * (1 << 20) + b"#", b"\n" * 10_000):
        with pytest.raises(TooLarge):
            crontab(data)


# ---- the environment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("A = b c ", "A", "b c"),
        ("A=", "A", ""),
        ('A=""', "A", ""),
        ("A='  b = \"c\" '", "A", '  b = "c" '),
        ('"A b"=c', "A b", "c"),
        ("A=b'c'", "A", "b'c'"),
        ("A=$HOME/%d # no comment", "A", "$HOME/%d # no comment"),
        ("A='b'  ", "A", "b"),
    ],
)
def test_a_variable_is_read_as_cron_reads_it(line: str, name: str, value: str) -> None:
    assert variable_of(line) == (name, value)


def test_variables_hold_for_the_lines_below_them() -> None:
    found = crontab("* * * * * one\nA=1\nSHELL=/bin/bash\n* * * * * two\nA=2\nB=3\nSHELL=/bin/sh\n* * * * * three")
    assert [entry.env for entry in found.entries] == [{}, {"A": "1"}, {"A": "2", "B": "3"}]
    assert [entry.shell for entry in found.entries] == ["/bin/sh", "/bin/bash", "/bin/sh"]


def test_a_zone_holds_for_the_times_below_it_and_tz_for_the_commands_only() -> None:
    text = "0 9 * * * a\nCRON_TZ=Asia/Tokyo\n0 9 * * * b\nTZ=Europe/Paris\n0 9 * * * c\nCRON_TZ=\n0 9 * * * d"
    found = crontab(text, zone="Europe/Berlin")
    assert [entry.rule.tz for entry in found.entries] == ["Europe/Berlin", "Asia/Tokyo", "Asia/Tokyo", "Europe/Berlin"]
    assert [entry.env.get("TZ") for entry in found.entries] == [None, None, "Europe/Paris", "Europe/Paris"]
    [remark] = found.remarks
    assert remark.line == 4
    assert "Asia/Tokyo" in remark.reason


def test_an_unknown_zone_is_the_fault_of_each_line_below_it() -> None:
    found = crontab("CRON_TZ=Europe/Berln\n0 9 * * * a\n0 9 * * * b")
    assert [left.line for left in found.left] == [2, 3]
    assert "Europe/Berlin" in found.left[0].reason


def test_mail_is_kept_and_remarked_upon() -> None:
    found = crontab('MAILTO=root\n* * * * * a\nMAILTO=""\n* * * * * b')
    assert [remark.line for remark in found.remarks] == [1]
    assert [entry.env for entry in found.entries] == [{"MAILTO": "root"}, {"MAILTO": ""}]


def test_a_random_delay_is_jitter() -> None:
    assert [
        entry.jitter_s for entry in crontab("RANDOM_DELAY=45\n* * * * * a\nRANDOM_DELAY=0\n* * * * * b").entries
    ] == [
        2700,
        0,
    ]


# ---- users -----------------------------------------------------------------------------------------------------------


def test_a_system_crontab_names_users() -> None:
    entry = only("17 *\t* * *\troot    cd / && run-parts x", system=True)
    assert (entry.user, entry.command) == ("root", "cd / && run-parts x")
    assert only("@daily me run", system=True).user == "me"
    assert "names a user" in reason("* * * * * root", system=True)
    assert "names a user" in reason("@daily", system=True)


def test_a_copy_of_a_system_crontab_is_remarked_upon() -> None:
    text = "17 * * * *\troot\tcd / && run-parts x\n* * * * * rootless\n* * * * * a"
    assert [(remark.line, "--system" in remark.reason) for remark in crontab(text).remarks] == [(1, True)]
    assert crontab(text.replace("rootless", "me b").replace(" a", " me a"), system=True).remarks == []


def test_a_user_whom_we_may_not_be_is_listed() -> None:
    assert "only root" in reason("* * * * * www-data run", system=True)
    assert "only root" in reason("* * * * * run", owner="alice")
    assert only("* * * * * run", owner="me").user == "me"


# ---- percent ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("run", "run", None),
        ("run%", "run", ""),
        ("run%a", "run", "a\n"),
        ("mail -s hi%Dear%%you%", "mail -s hi", "Dear\n\nyou\n"),
        (r"date +\%d", "date +%d", None),
        (r"date +\%d%50\%%b", "date +%d", "50%\nb\n"),
        (r"a \\ b \n c", "a \\ b \\n c", None),
        (r"a \\% b", "a \\", " b\n"),
        ("a\\", "a\\", None),
        (r"test -x a -a \! -d b", r"test -x a -a \! -d b", None),
    ],
)
def test_percent_begins_what_the_command_reads(text: str, command: str, stdin: str | None) -> None:
    assert split_percent(text) == (command, stdin)


@given(st.text(alphabet="ab%\\ \n", max_size=30))
@example("\\")
def test_a_command_that_is_escaped_comes_back_whole(command: str) -> None:
    escaped = command.replace("\\", "\\\\").replace("%", "\\%")
    assert split_percent(escaped) == (command, None)


# ---- schedules -------------------------------------------------------------------------------------------------------


def schedules(text: str, name: str = "backup", **form: Any) -> list[dict[str, Any]]:
    return schedules_of(name, crontab(text, **form).entries, {"overlap": "ALLOW"}, set())


def test_a_line_becomes_a_schedule_of_shell_run() -> None:
    text = "PATH=/bin\nSHELL=/bin/bash\nRANDOM_DELAY=1\nCRON_TZ=Asia/Tokyo\n"
    [schedule] = schedules(text + "0 9 * * * root /opt/save-all --now /srv/data%yes", system=True)
    assert schedule.pop("id").startswith("backup-save-all-data-")
    assert schedule == {
        "cron": "0 9 * * *", "tz": "Asia/Tokyo", "task": "shell.run", "args": ["/opt/save-all --now /srv/data"],
        "kwargs": {"env": {"PATH": "/bin"}, "stdin": "yes\n", "user": "root", "shell": "/bin/bash"},
        "tags": ["crontab", "crontab:backup"], "jitter_s": 60.0, "overlap": "ALLOW",
    }  # fmt: skip


def test_ids_depend_on_the_line_alone_and_are_unique() -> None:
    one = schedules("* * * * * run a\n* * * * * run b\n* * * * * run a")
    two = schedules("# more\nA=1\n\n*  *  * * *  run a")
    assert one[0]["id"] == two[0]["id"]
    assert one[2]["id"] == f"{one[0]['id']}-2"
    assert len({schedule["id"] for schedule in one}) == 3
    other = schedules("* * * * * run a", name="other")[0]["id"]
    assert other != one[0]["id"]
    assert other.startswith("other-run-")


@given(st.lists(st.text(alphabet="*/0159@dailyreboot \\%=\"'#\t-,AZ\xe9\0", max_size=40), max_size=6))
def test_whatever_a_crontab_holds_each_line_is_accounted_for_once(lines: list[str]) -> None:
    found = crontab("\n".join(lines), system=True)
    numbers = [entry.line for entry in found.entries] + [left.line for left in found.left]
    assert len(numbers) == len(set(numbers))
    target = ShellTarget()
    for schedule in schedules_of("f", found.entries, {}, set()):
        assert schedule["id"].isascii()
        target.fault_of(*schedule["args"], **schedule["kwargs"])


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/usr/local/bin/save", "save"),
        ("cd /srv && ./run.sh >/dev/null 2>&1", "run.sh"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts cron.daily"),
        ("[ -x /a/b ] && if [ ! -d /run/systemd/system ]; then /a/b; fi", "b"),
        ("command -v sa1 > /dev/null && sa1 1 1", "sa1"),
        ("test -e /x || MODE=1 /sbin/scrub -A -r", "scrub"),
        ("if [ $(date +%d) -le 7 ]; then /usr/bin/check --all; fi", "check"),
        ("nice -n19 ionice -c3 /usr/bin/updatedb", "updatedb"),
        ("true", "true"),
        ('psql -c "select 1; select 2" | mail -s x', "psql"),
    ],
)
def test_an_id_names_what_the_command_runs(command: str, program: str) -> None:
    assert program_of(command) == program
