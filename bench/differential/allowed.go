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
	const definitions = `define.*|defined|redefined?.*|definition.*|get the clash|status of the definition`
	return []*allowance{
		{where: "header X-Kubernetes-Pf-.*", why: "there is no flow control, so no answer names its flow schema and priority level"},
		{where: "header Audit-Id", why: "the drop-in gives requests no audit id unless it keeps an audit log"},
		{stream: "custom/.*", label: definitions, where: `body\.status\..*`,
			why: "a definition can be used when its create call returns, so that answer shows accepted names and conditions; kube-apiserver adds them later"},
		{stream: "custom/.*", label: definitions, where: `body\.metadata\.(managedFields.*|resourceVersion)`,
			why: "kube-apiserver's controllers write a definition's status as a manager of their own, in writes of their own"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9`, where: `body\..*`,
			why: "a continue token made by hand that names a first object: no server gives such a token"},
		{stream: "documents/discovery", where: `body.*\(length\)`, why: "kinds that are not served: componentstatuses and the groups that docs/gaps.md names"},
		{stream: "documents/discovery", kelson: `^404|404 page not found|text/plain|nosniff`, why: "documents of groups that are not served"},
		{stream: "documents/openapi", where: `body\.(definitions|components)\..*`, why: "OpenAPI documents of built-in kinds come without lists of enumerated values"},
		{stream: "documents/openapi", where: `header .*`, why: "headers of files, which kube-apiserver adds to OpenAPI documents"},
		{stream: "documents/paths", label: `.*(/debug|/statusz|/flagz|/configz|/logs|/metrics/slis|/index.html|componentstatuses).*`, why: "diagnostic pages that are not served"},
		{stream: "documents/paths", label: `.* /`, why: "the index names the paths that each server has"},
	}
}
