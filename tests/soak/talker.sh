# Talks for ever, a numbered line every PAUSE seconds; every EVERY lines it asks, and says what it was told. Forks nothing.
exec 3<> <(:)
number=0
while :; do
    number=$((number + 1))
    printf 'line %d of a program that has a lot to say and says it slowly\n' "$number"
    if [ "$EVERY" -gt 0 ] && [ $((number % EVERY)) -eq 0 ]; then
        read -r -p "Go on after $number? [y/N] " told
        printf 'told %d %s\n' "$number" "$told"
    fi
    read -r -t "$PAUSE" <&3
done
