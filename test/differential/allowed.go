package main

import "regexp"

// allowance is an accepted difference, and why it is accepted. It must match something in a
// complete run; otherwise it is out of date and the run fails, unless chance is set. Empty patterns
// match everything.
type allowance struct {
	stream, label, where string // regular expressions that must match the whole text
	peer, kelson         string // regular expressions that must match a part
	why                  string
	chance               bool // whether the difference shows depends on the seed or on timing

	matched int
}

func (a *allowance) matches(d *difference) bool {
	whole := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(text)
	}
	part := func(pattern, text string) bool { return pattern == "" || regexp.MustCompile(pattern).MatchString(text) }
	return whole(a.stream, d.stream) && whole(a.label, d.label) && whole(a.where, d.where) && part(a.peer, d.peer) && part(a.kelson, d.kelson)
}

// allowances returns the list of accepted differences.
func allowances() []*allowance {
	const definitions = `define.*|defined|redefined?.*|definition.*|(get|delete) the clash|delete the definition|status of the definition|status without the stored version`
	const (
		flowSchemas = `flowcontrol\.apiserver\.k8s\.io/v1/flowschemas`
		dangling    = "on each server, flow control writes to a FlowSchema's status whether its priority level exists, a moment after the object was written"
		claimed     = "a claim is stored with its phase, so the first write without changes has no effect; kube-apiserver stores the phase with that write"
	)
	return []*allowance{
		{where: "header Audit-Id", kelson: `^$`, why: "the drop-in assigns no audit ID to requests unless it writes an audit log"},
		{stream: "custom/.*", label: definitions, where: `body\.status\..*`,
			why: "a definition is usable when its create call returns, so the response has accepted names and conditions; kube-apiserver adds them later"},
		{stream: "custom/.*", label: definitions, where: `body\.metadata\.(managedFields.*|resourceVersion)`,
			why: "kube-apiserver's controllers write a definition's status in separate writes, with their own field manager"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9`, where: `body\..*`,
			why: "a forged continue token that names a first object: no server issues such a token"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0`, where: "status", peer: `^200`, kelson: `^410 The provided continue parameter is too old`,
			why: "a list can be continued for five minutes; kube-apiserver does so until etcd is compacted, which is five to ten minutes", chance: true},
		{stream: "documents/discovery", where: `body.*\[componentstatuses\]`, kelson: `^\(absent\)$`, why: "componentstatuses, which are deprecated, are not served"},
		{stream: flowSchemas, where: `body.*(status\.conditions|metadata\.managedFields|metadata\.resourceVersion|cells\[\]).*`, why: dangling, chance: true},
		{stream: flowSchemas, where: `body\..*message`, peer: `kind[\\]*":[\\]*"(FlowSchema|Nothing)`, why: dangling, chance: true},
		{stream: flowSchemas, label: "status update bad conditions", where: `status|body(\..*)?`, peer: `^(409( .*)?|Conflict|flowschemas|\(absent\)|Operation cannot be fulfilled .*)$`,
			why: "flow control writes a FlowSchema's status concurrently, on either server, so the update conflicts", chance: true},
		{stream: flowSchemas, label: "status update bad conditions", where: `status|body(\..*)?`, kelson: `^(409( .*)?|Conflict|flowschemas|\(absent\)|Operation cannot be fulfilled .*)$`,
			why: "flow control writes a FlowSchema's status concurrently, on either server, so the update conflicts", chance: true},
		{stream: "generated/.*", label: "(generated|mutated) apply", where: `body\.message`,
			peer: `^failed to create typed patch object .*: (?s:.*)field not declared in schema`, kelson: `^failed to create typed patch object .*: (?s:.*)field not declared in schema`,
			why: "the merge library stops at the first unknown field of a map, whose order is random, so the number of errors is random", chance: true},
		{stream: flowSchemas, where: `status`, peer: `^409 .*the object has been modified`, kelson: `^200`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete right preconditions", where: `body\.message`, peer: `does not match the ResourceVersion in record`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete right preconditions", where: "status", peer: `^409 .*does not match the ResourceVersion in record`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete again", where: "status", peer: "^200", kelson: "^404", why: dangling, chance: true},
		{stream: "v1/persistentvolumeclaims", label: "watch from .*", where: `body\(length\)`, why: claimed, chance: true},
		{stream: "v1/persistentvolumeclaims", label: `(status )?(update|patch|apply).*`, where: `body\.metadata\.resourceVersion`, peer: `^newer`, kelson: `^the same`, why: claimed},
		{stream: "documents/openapi", where: `body\.definitions\..*\.v\d+(alpha|beta)\d+\..*`, peer: `^\(absent\)$`,
			why: "the OpenAPI v2 document also defines types of versions that are not served"},
		{stream: "documents/openapi", label: `openapi v[23] protobuf`, where: "body",
			why: "OpenAPI documents in protobuf are compared as a whole; the same documents in JSON are compared field by field"},
		{stream: "documents/(openapi|paths)", label: `openapi v3|GET /openapi/v3|POST /openapi/v3`, where: `header (Etag|Vary)`, peer: `^$`,
			why: "the index of OpenAPI documents has an ETag and supports compression"},
		{stream: "custom/plain/instances", label: `(patch status|get( in v1)?|update) ?(\{"spec":\{"(any":null|pod":\{.*\})\}\})?`, where: `body\.metadata\.resourceVersion`,
			peer: `^newer`, kelson: `^the same`, why: "a null that the schema does not allow is dropped before it is stored; kube-apiserver stores it, does not return it, and drops it with the next write"},
		{stream: "documents/(openapi|paths)|custom/.*", label: `.*openapi.*`, where: `header Vary`, peer: `^Accept$`, kelson: `^Accept \| Accept-Encoding$`,
			why: "OpenAPI v3 documents support compression"},
		{stream: "documents/paths", label: `.* (/debug/.*|/statusz|/flagz|/configz|/logs|/metrics/slis|/index.html|/debug/pprof/?)`, why: "diagnostic pages that are not served"},
		{stream: "documents/paths", label: `.* /api/v1/componentstatuses`, why: "componentstatuses, which are deprecated, are not served"},
		{stream: "documents/paths", label: `.* /(healthz|livez|readyz)(/.*|\?.*)?`, where: `status|body|header (Content-Type|X-Content-Type-Options)`,
			why: "health checks differ: Kelson has no etcd, and other hooks"},
		{stream: "documents/paths", label: `(GET|POST|protobuf|yaml|xml) /`, where: `body\.paths.*`, why: "the index lists the paths and health checks of each server"},
		{stream: "documents/paths", label: `GET /version/?`, where: `body\.(buildDate|git.*)`, why: "kube-apiserver was built from its module, without a version"},
		{stream: "generated/v1/pods", where: "status", peer: `^500 invalid resource name ".*": \[may not contain '/'\]$`, kelson: `RuntimeClass ".*" not found$`,
			why: "a RuntimeClass with an invalid name is not found; kube-apiserver cannot request it from itself", chance: true},
		{stream: "generated/batch/v1/jobs", label: "(generated|mutated) .*", where: "connection", peer: `INTERNAL_ERROR`, kelson: `^$`,
			why: "kube-apiserver's handler panics on a Job with an invalid selector, and closes the connection", chance: true},
		{stream: "documents/paths", label: `POST /api/v1/namespaces//pods`,
			why: "a path with an empty namespace creates nothing; kube-apiserver continues with the body"},
		{stream: "custom/.*/verbs", label: `create (content type application/vnd\.kubernetes\.protobuf|(bad|empty|no) protobuf)`, where: "connection", peer: `INTERNAL_ERROR`,
			why: "kube-apiserver's handler panics on a protobuf body for a custom kind, and closes the connection"},
		{stream: "custom/.*/verbs", label: `scale apply.*`, peer: `failed to create manager for existing fields.*request to convert CR to an invalid group/version: autoscaling/v1`,
			why: "the scale of a custom kind can be applied; kube-apiserver fails to convert it"},
		{stream: "custom/.*/verbs", label: `scale (update .*|object itself)`, where: `body\.message`, peer: `^no kind is registered for the type v1\.Scale in scheme`,
			why: "an invalid body for the scale of a custom kind gets a specific error; kube-apiserver returns an internal decoder error"},
		{stream: "admissionregistration.k8s.io/v1/validatingadmissionpolicies", label: "status apply missing",
			why: "an apply to the status of a missing policy gets 404; kube-apiserver would create the policy"},
	}
}
