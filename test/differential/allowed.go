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
		flowSchemas    = `flowcontrol\.apiserver\.k8s\.io/v1/flowschemas`
		dangling       = "flow control writes into a FlowSchema's status whether its priority level exists, on each server a moment after the object was written"
		claimed        = "a claim is stored with its phase, so the first write that changes nothing is none; kube-apiserver stores the phase with that write"
		unservedGroups = `resource\.k8s\.io|storagemigration\.k8s\.io|internal\.apiserver\.k8s\.io`
		unserved       = `resource\.k8s\.io|resource\.v1|componentstatus|ComponentStatus|api\.(resource|storagemigration|imagepolicy|apiserverinternal)\.|storagemigration|internal\.apiserver`
	)
	return []*allowance{
		{where: "header Audit-Id", kelson: `^$`, why: "the drop-in gives requests no audit id unless it keeps an audit log"},
		{stream: "custom/.*", label: definitions, where: `body\.status\..*`,
			why: "a definition can be used when its create call returns, so that answer shows accepted names and conditions; kube-apiserver adds them later"},
		{stream: "custom/.*", label: definitions, where: `body\.metadata\.(managedFields.*|resourceVersion)`,
			why: "kube-apiserver's controllers write a definition's status as a manager of their own, in writes of their own"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9`, where: `body\..*`,
			why: "a continue token made by hand that names a first object: no server gives such a token"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0`, where: "status", peer: `^200`, kelson: `^410 The provided continue parameter is too old`,
			why: "a list can be continued for five minutes; kube-apiserver does so until etcd is compacted, which is five to ten minutes", chance: true},
		{stream: "documents/(discovery|paths)", where: `body.*\[(` + unservedGroups + `)\]`, kelson: `^\(absent\)$`, why: "groups that docs/reference/gaps.md names are not served"},
		{stream: "documents/discovery", where: `body.*\[componentstatuses\]`, kelson: `^\(absent\)$`, why: "componentstatuses, which are out of use, are not served"},
		{stream: "documents/discovery", kelson: `^404|404 page not found|text/plain|nosniff`, why: "documents of groups that are not served"},
		{stream: flowSchemas, where: `body.*(status\.conditions|metadata\.managedFields|metadata\.resourceVersion|cells\[\]).*`, why: dangling, chance: true},
		{stream: flowSchemas, where: `body\..*message`, peer: `kind[\\]*":[\\]*"(FlowSchema|Nothing)`, why: dangling, chance: true},
		{stream: flowSchemas, label: "status update bad conditions", where: `status|body(\..*)?`, peer: `^(409( .*)?|Conflict|flowschemas|\(absent\)|Operation cannot be fulfilled .*)$`,
			why: "flow control writes into a FlowSchema's status at the same time, on either server, so that the update is too late", chance: true},
		{stream: flowSchemas, label: "status update bad conditions", where: `status|body(\..*)?`, kelson: `^(409( .*)?|Conflict|flowschemas|\(absent\)|Operation cannot be fulfilled .*)$`,
			why: "flow control writes into a FlowSchema's status at the same time, on either server, so that the update is too late", chance: true},
		{stream: "generated/.*", label: "(generated|mutated) apply", where: `body\.message`,
			peer: `^failed to create typed patch object .*: (?s:.*)field not declared in schema`, kelson: `^failed to create typed patch object .*: (?s:.*)field not declared in schema`,
			why: "the merge library's walk over a map, which has no order, ends at the first unknown field, so the number of errors is random", chance: true},
		{stream: flowSchemas, where: `status`, peer: `^409 .*the object has been modified`, kelson: `^200`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete right preconditions", where: `body\.message`, peer: `does not match the ResourceVersion in record`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete right preconditions", where: "status", peer: `^409 .*does not match the ResourceVersion in record`, why: dangling, chance: true},
		{stream: flowSchemas, label: "delete again", where: "status", peer: "^200", kelson: "^404", why: dangling, chance: true},
		{stream: "v1/persistentvolumeclaims", label: "watch from .*", where: `body\(length\)`, why: claimed, chance: true},
		{stream: "v1/persistentvolumeclaims", label: `(status )?(update|patch|apply).*`, where: `body\.metadata\.resourceVersion`, peer: `^newer`, kelson: `^the same`, why: claimed},
		{stream: "documents/openapi", where: `body\.definitions\..*\.v\d+(alpha|beta)\d+\..*`, peer: `^\(absent\)$`,
			why: "the OpenAPI v2 document defines the types of versions too that are not served"},
		{stream: "documents/openapi", where: `body\.(paths|definitions|components)\..*(` + unserved + `).*`, kelson: `^\(absent\)$`,
			why: "OpenAPI documents of groups that are not served"},
		{stream: "documents/openapi", label: `openapi v3 document apis/(` + unservedGroups + `)(/.*)?`, where: "status", peer: "^200$", kelson: "^404$",
			why: "OpenAPI documents of groups that are not served"},
		{stream: "documents/openapi", label: `openapi v[23] protobuf`, where: "body",
			why: "OpenAPI documents in protobuf are those in JSON, which are compared field by field; these are compared as a whole"},
		{stream: "documents/(openapi|paths)", label: `openapi v3|GET /openapi/v3|POST /openapi/v3`, where: `header (Etag|Vary)`, peer: `^$`,
			why: "the index of OpenAPI documents has an ETag and can be had compressed"},
		{stream: "custom/plain/instances", label: `(patch status|get( in v1)?|update) ?(\{"spec":\{"(any":null|pod":\{.*\})\}\})?`, where: `body\.metadata\.resourceVersion`,
			peer: `^newer`, kelson: `^the same`, why: "a null that the schema does not allow is dropped before it is stored; kube-apiserver stores it, shows it to no client, and drops it with the next write"},
		{stream: "documents/(openapi|paths)|custom/.*", label: `.*openapi.*`, where: `header Vary`, peer: `^Accept$`, kelson: `^Accept \| Accept-Encoding$`,
			why: "OpenAPI documents of version 3 can be had compressed"},
		{stream: "documents/paths", label: `.* (/debug/.*|/statusz|/flagz|/configz|/logs|/metrics/slis|/index.html|/debug/pprof/?)`, why: "diagnostic pages that are not served"},
		{stream: "documents/paths", label: `.* /api/v1/componentstatuses`, why: "componentstatuses, which are out of use, are not served"},
		{stream: "documents/paths", label: `.* /(healthz|livez|readyz)(/.*|\?.*)?`, where: `status|body|header (Content-Type|X-Content-Type-Options)`,
			why: "health is the sum of the checks that each server has: Kelson has no etcd and other hooks"},
		{stream: "documents/paths", label: `(GET|POST|protobuf|yaml|xml) /`, where: `body\.paths.*`, why: "the index lists the paths that each server has, and the checks of its health"},
		{stream: "documents/paths", label: `GET /version/?`, where: `body\.(buildDate|git.*)`, why: "kube-apiserver was built from its module, which says nothing of its version"},
		{stream: "generated/v1/pods", where: "status", peer: `^500 invalid resource name ".*": \[may not contain '/'\]$`, kelson: `RuntimeClass ".*" not found$`,
			why: "a RuntimeClass of an impossible name is not found; kube-apiserver fails to ask itself for it", chance: true},
		{stream: "generated/batch/v1/jobs", label: "(generated|mutated) .*", where: "connection", peer: `INTERNAL_ERROR`, kelson: `^$`,
			why: "kube-apiserver's handler panics at a Job whose selector is not valid, and the connection ends", chance: true},
		{stream: "documents/paths", label: `POST /api/v1/namespaces//pods`,
			why: "a path with an empty namespace creates nothing; kube-apiserver continues with the body"},
		{stream: "custom/.*/verbs", label: `create (content type application/vnd\.kubernetes\.protobuf|(bad|empty|no) protobuf)`, where: "connection", peer: `INTERNAL_ERROR`,
			why: "kube-apiserver's handler panics at a body in protobuf for a custom kind, and the connection ends"},
		{stream: "custom/.*/verbs", label: `scale apply.*`, peer: `failed to create manager for existing fields.*request to convert CR to an invalid group/version: autoscaling/v1`,
			why: "the scale of a custom kind can be applied; kube-apiserver fails to convert it"},
		{stream: "custom/.*/verbs", label: `scale (update .*|object itself)`, where: `body\.message`, peer: `^no kind is registered for the type v1\.Scale in scheme`,
			why: "what is wrong with a body for the scale of a custom kind is said; kube-apiserver's answer is of its own decoder's trouble"},
		{stream: "admissionregistration.k8s.io/v1/validatingadmissionpolicies", label: "status apply missing",
			why: "the status of a policy that does not exist is not found; kube-apiserver would create the policy by it"},
	}
}
