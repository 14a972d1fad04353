package main

// mirrorScenario is red until weir has a mirror.
func mirrorScenario(weir side, peer string) scenario {
	return scenario{
		name:     "mirror",
		title:    "copy topics from one cluster to another, beside " + peer,
		sides:    []side{weir},
		notBuilt: "not run: weir's mirror is not built yet",
	}
}
