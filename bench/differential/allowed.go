package main

import "regexp"

// allowance is a difference that stays, and why. It must match something in a whole run, or it is out of date and the run fails. Empty
// patterns match everything.
type allowance struct {
	stream, label, where string // regular expressions, each over the whole
	peer, kelson         string // regular expressions, each over a part
	why                  string

	matched int
}

func (a *allowance) matches(d *difference) bool {
	whole := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(text)
	}
	part := func(pattern, text string) bool { return pattern == "" || regexp.MustCompile(pattern).MatchString(text) }
	return whole(a.stream, d.stream) && whole(a.label, d.label) && whole(a.where, d.where) && part(a.peer, d.peer) && part(a.kelson, d.kelson)
}

// allowances is the list of what stays.
func allowances() []*allowance {
	return []*allowance{
		{where: "header Audit-Id", why: "requests have no audit id yet"},
		{where: "header X-Kubernetes-Pf-.*", why: "there is no flow control yet, so no answer names its flow schema and priority level"},
	}
}
