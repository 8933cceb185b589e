#!/bin/sh
# Runs in the virtual machine of test_limits.py, once after each boot: attacks the limits of two
# applications under systemd, before and after a restart of the unit, and again after a restart of
# the machine. Each line for the test begins with "limits:".
set -u

step=/var/lib/limits.step
groups=/sys/fs/cgroup/system.slice/howdah.service
memory=134217728
tasks=20

say() {
    echo "limits: $*" >/dev/ttyS0
}

# Compares two values: is NAME FOUND WANTED.
is() {
    if [ "$2" = "$3" ]; then
        say "ok $1"
    else
        say "FAILED $1: '$2' and not '$3'"
    fi
}

# Compares two numbers: most NAME FOUND MAXIMUM.
most() {
    if [ "$2" -le "$3" ]; then
        say "ok $1 ($2)"
    else
        say "FAILED $1: $2 is more than $3"
    fi
}

get() {
    curl -s -o /tmp/body -w '%{http_code}' --max-time 120 "http://127.0.0.1/$1"
}

value() {
    sed -n "s/^$1 //p" "$2"
}

attack() {
    group=$groups/$2
    is "$1: $2: memory.max" "$(cat "$group/memory.max")" "$memory"
    is "$1: $2: pids.max" "$(cat "$group/pids.max")" "$tasks"
    killed=$(value oom_kill "$group/memory.events")
    refused=$(value max "$group/pids.events")
    : >/tmp/others
    while [ -e /tmp/others ]; do
        [ "$(get calm)" = 200 ] || echo failed >>/tmp/others.failed
    done &
    status=$(get "$3/hog")
    [ "$status" -ge 500 ] && status=5xx
    is "$1: $2: the memory hog is answered" "$status" 5xx
    is "$1: $2: the kernel has ended it" \
        "$([ "$(value oom_kill "$group/memory.events")" -gt "$killed" ] && echo yes)" yes
    [ -e "$group/memory.peak" ] && most "$1: $2: memory.peak" "$(cat "$group/memory.peak")" "$memory"
    is "$1: $2: the fork bomb is answered" "$(get "$3/bomb")" 200
    most "$1: $2: pids.current" "$(cat "$group/pids.current")" "$tasks"
    is "$1: $2: the kernel has refused forks" \
        "$([ "$(value max "$group/pids.events")" -gt "$refused" ] && echo yes)" yes
    rm /tmp/others
    wait
    is "$1: $2: all others are answered" "$(cat /tmp/others.failed 2>/dev/null)" ""
    rm -f /tmp/others.failed
}

all() {
    tries=0
    until [ "$(get calm)" = 200 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || break
        sleep 1
    done
    is "$1: the server answers" "$(get calm)" 200
    if [ "$tries" -ge 60 ]; then
        journalctl --no-pager --lines=40 --unit=howdah.service >/dev/ttyS0
        return
    fi
    # PHP of these is loaded with the first request.
    is "$1: the first request" "$(get shop/calm) $(get blog/calm)" "200 200"
    attack "$1" application-shop shop
    attack "$1" blog blog
    is "$1: blog: cpu.max" "$(cat "$groups/blog/cpu.max")" "50000 100000"
    howdah status >/tmp/status 2>&1
    is "$1: status" "$(grep -c 'by control group' /tmp/status)" 2
    # The bombs have left programs. Former processes answer until the new ones have started, whose ids are
    # higher: the last field is the id of the newest process.
    newest=$(cut -d ' ' -f 5 /proc/loadavg)
    howdah restart --all >/dev/null 2>&1
    tries=0
    while [ "$(get shop/calm)" != 200 ] || [ "$(cat /tmp/body)" -le "$newest" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || break
        sleep 1
    done
}

case $(cat "$step" 2>/dev/null) in
    '')
        all "first start"
        howdah check /etc/howdah/howdah.json >/tmp/check 2>&1
        is "check" "$?" 0
        is "check: nothing is approximate" "$(grep -c approximately /tmp/check)" 0
        systemctl restart howdah.service
        all "after a restart of the unit"
        sed 's/"processes": 20/"processes": 21/' /etc/howdah/howdah.json >/tmp/changed.json
        before=$(systemctl show --property MainPID howdah.service)
        get shop/calm >/dev/null
        php=$(cat /tmp/body)
        cp /tmp/changed.json /etc/howdah/howdah.json
        systemctl reload howdah.service
        is "a reload changes a limit" "$(cat "$groups/application-shop/pids.max")" 21
        get shop/calm >/dev/null
        is "a reload leaves PHP alone" "$(cat /tmp/body)" "$php"
        is "a reload leaves the server alone" \
            "$(systemctl show --property MainPID howdah.service)" "$before"
        sed -i 's/"processes": 21/"processes": 20/' /etc/howdah/howdah.json
        echo rebooted >"$step"
        sync
        say "reboots"
        systemctl reboot
        ;;
    rebooted)
        all "after a restart of the machine"
        say "done"
        systemctl poweroff
        ;;
esac
