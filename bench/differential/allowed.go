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
	const (
		flowSchemas = `flowcontrol\.apiserver\.k8s\.io/v1/flowschemas`
		dangling    = "there is no flow control, so nothing writes into a FlowSchema's status whether its priority level exists"
		enumerated  = "OpenAPI documents of built-in kinds come without lists of enumerated values"
	)
	return []*allowance{
		{where: "header X-Kubernetes-Pf-.*", kelson: `^$`, why: "there is no flow control, so no answer names its flow schema and priority level"},
		{where: "header Audit-Id", kelson: `^$`, why: "the drop-in gives requests no audit id unless it keeps an audit log"},
		{stream: "custom/.*", label: definitions, where: `body\.status\..*`,
			why: "a definition can be used when its create call returns, so that answer shows accepted names and conditions; kube-apiserver adds them later"},
		{stream: "custom/.*", label: definitions, where: `body\.metadata\.(managedFields.*|resourceVersion)`,
			why: "kube-apiserver's controllers write a definition's status as a manager of their own, in writes of their own"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9`, where: `body\..*`,
			why: "a continue token made by hand that names a first object: no server gives such a token"},
		{stream: "documents/discovery", where: `body.*\(length\)`, why: "kinds that are not served: componentstatuses and the groups that docs/gaps.md names"},
		{stream: "documents/discovery", kelson: `^404|404 page not found|text/plain|nosniff`, why: "documents of groups that are not served"},
		{stream: flowSchemas, where: `body.*(status\.conditions|metadata\.managedFields|metadata\.resourceVersion|cells\[\]).*`, why: dangling},
		{stream: flowSchemas, where: `body\..*message`, peer: `kind[\\]*":[\\]*"FlowSchema`, why: dangling},
		{stream: flowSchemas, where: `status`, peer: `^409 .*the object has been modified`, kelson: `^200`, why: dangling},
		{stream: "v1/persistentvolumeclaims", label: `(update|patch|apply).*`, where: `body\.metadata\.resourceVersion`, peer: `^newer`, kelson: `^the same`,
			why: "a claim is stored with its phase, so the first write that changes nothing is none; kube-apiserver stores the phase with that write"},
		{stream: "documents/openapi", where: `body\.(definitions|components)\..*\.(enum|description)`, peer: `Possible enum values|^\[`, why: enumerated},
		{stream: "documents/openapi", where: `body\.definitions\..*\.v\d+(alpha|beta)\d+\..*`, peer: `^\(absent\)$`,
			why: "the OpenAPI v2 document defines the types of versions too that are not served"},
		{stream: "documents/openapi", where: `body\.(paths|definitions|components)\..*(resource\.k8s\.io|resource\.v1|componentstatus|ComponentStatus|api\.(resource|storagemigration|imagepolicy|apiserverinternal)\.|storagemigration|internal\.apiserver).*`, kelson: `^\(absent\)$`,
			why: "OpenAPI documents of groups that are not served"},
		{stream: "documents/openapi", where: `header .*`, why: "headers of files, which kube-apiserver adds to OpenAPI documents"},
		{stream: "documents/paths", label: `.*(/debug|/statusz|/flagz|/configz|/logs|/metrics/slis|/index.html|componentstatuses).*`, why: "diagnostic pages that are not served"},
		{stream: "documents/paths", label: `.* /(healthz|livez|readyz).*`, why: "health is the sum of the checks that each server has: Kelson has no etcd and other hooks"},
		{stream: "documents/paths", label: `.* /`, why: "the index names the paths that each server has"},
	}
}
