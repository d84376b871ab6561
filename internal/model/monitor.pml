/* The properties that are looked at in every state. */
proctype Monitor() {
end:
	if
	:: atomic { any(hasNoKey) -> VIOLATED(keyless) }
	:: atomic { twoOf(holds) -> VIOLATED(twoHolders) }
	:: atomic { anyKey(nobodys) -> VIOLATED(orphan) }
	fi
}
