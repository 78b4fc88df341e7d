package main

import "regexp"

// allowance is an accepted difference, and why it is accepted. It must match a difference in a
// complete run; otherwise it is out of date and the run fails, unless chance is set. Empty patterns
// match everything.
type allowance struct {
	stream, label, where string // regular expressions that must match the whole text
	peer, kelson         string // regular expressions that must match a part
	why                  string
	chance               bool // the difference occurs only with some seeds or timings

	matched int
}

func (a *allowance) matches(d *difference) bool {
	whole := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(text)
	}
	part := func(pattern, text string) bool { return pattern == "" || regexp.MustCompile(pattern).MatchString(text) }
	return whole(a.stream, d.stream) && whole(a.label, d.label) && whole(a.where, d.where) && part(a.peer, d.peer) &&
		part(a.kelson, d.kelson)
}

// allowances returns the list of accepted differences.
func allowances() []*allowance {
	const definitions = `define.*|defined.*|redefined?.*|definition.*|(get|delete) the clash|delete the definition|status of the definition|status without the stored version`
	const (
		claimed     = "a claim is stored with its phase, so the first write without changes has no effect; kube-apiserver stores the phase with that write"
		established = "a definition is usable when its create call returns, so the response has accepted names and conditions; kube-apiserver adds them later, in separate writes with other field managers"
		forged      = "forged continue tokens, which no server issues: one has a start key without a resource version; the other has version 1, and how long a server keeps that state differs"
		hidden      = "a value that reads do not show is not stored: a null that the schema does not allow, and the internalTrafficPolicy of an ExternalName Service; kube-apiserver stores it, shows it in responses to status requests and in some errors, and drops it with the next write"
		dated       = "documents have no Last-Modified, which has seconds: clients would keep a document that changes within the second"
		tagged      = "the root of the OpenAPI documents has an entity tag, too"
		failing     = "the error of a list names one object whose conversion failed: a failing webhook is not called for the other objects"
		itself      = "pages about the server itself: its health checks, paths, flags and version"
		panics      = "kube-apiserver's handler panics, and closes the connection: protobuf for a custom kind, a Job with an invalid selector, a strategic merge patch whose merge key is not a text or number"
		scales      = "kube-apiserver cannot convert the scale of a custom kind: it refuses to apply one, and reports invalid ones as errors of its decoder"
	)
	return []*allowance{
		{stream: "custom/.*|admission/.*", label: definitions, where: `body\.status\..*`, why: established},
		{stream: "custom/.*|admission/.*", label: definitions,
			where: `body\.metadata\.(managedFields.*|resourceVersion)`, why: established},
		{stream: "admission/attributes", label: ".* CustomResourceDefinition .*",
			where: `(body|reviews\..*[oO]bject)\.(status\..*|metadata\.(managedFields.*|resourceVersion|finalizers|generation|deletion.*))`, why: established},
		{stream: "pods/bindings", label: "bind (by collection )?bad label", where: `status|body\..*|header .*`,
			why: "a binding with an invalid label is rejected; kube-apiserver stores it, and rejects every later update of the pod"},
		{label: `openapi.*|(document|conditional: .*) /openapi/.*`, where: "header Last-Modified", kelson: `^$`,
			why: dated},
		{stream: "special/conditional", label: `conditional: (not modified|unmodified) /openapi/.*`, where: "status",
			why: dated},
		{stream: "documents/openapi", label: "openapi v3", where: "header Etag", peer: `^$`, why: tagged},
		{stream: "special/conditional", label: `(document|conditional: .*) /openapi/v3`,
			where: `header (Etag|Content-Type)`, peer: `^$`, why: tagged},
		{stream: "special/conditional", label: `conditional: (same|any|match).* /openapi/v3`, where: "status",
			why: tagged},
		{stream: ".*/large|large/.*", label: "copies|(merge|apply) of more", where: `body\.message`,
			peer: `trying to send message larger than max`, kelson: `^etcdserver: request is too large$`,
			why: "an object of more than 2 MiB gets the same error as one of more than 1.5 MiB; kube-apiserver's client of etcd has a limit of its own"},
		{label: `watch negative timeout|timeout watch=1&timeoutSeconds=-1.*`, where: "body",
			why: "a watch with a negative timeout reports the passed deadline; kube-apiserver chooses at random whether it does", chance: true},
		{stream: "custom/versions/failing", label: "list .*", where: "status",
			peer: `^429 storage is \(re\)initializing`, why: failing, chance: true},
		{stream: "custom/versions/failing", label: "list .*", where: `body\.(message|details\.causes\(length\))`,
			why: failing},
		{stream: "custom/versions/failing", label: "delete collection", why: failing},
		{stream: "custom/versions/failing", label: "watch|initial events",
			why: "a watch reports the objects that cannot be converted; kube-apiserver's cache of the version cannot be filled, and its clients repeat the request"},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9`, where: `body\..*`,
			why: forged},
		{label: `list \?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0`, where: "status",
			peer:   `^(200|410 The provided continue parameter is too old.*)$`,
			kelson: `^(200|410 The provided continue parameter is too old.*)$`, why: forged, chance: true},
		{stream: "v1/persistentvolumeclaims", label: "watch from .*", where: `body\(length\)`, why: claimed,
			chance: true},
		{stream: "generated/v1/persistentvolumeclaims", where: `body\.(rows\[\]\.object\.)?metadata\.resourceVersion`,
			peer: `^newer`, kelson: `^the same`, why: claimed, chance: true},
		{stream: "v1/persistentvolumeclaims", label: `(status )?(update|patch|apply).*`,
			where: `body\.metadata\.resourceVersion`, peer: `^newer`, kelson: `^the same`, why: claimed},
		{stream: "custom/plain/instances", label: `(patch status|get( in v1)?|update) ?(\{"spec":\{"(any":null|pod":\{.*\})\}\})?`, where: `body\.metadata\.resourceVersion`,
			peer: `^newer`, kelson: `^the same`, why: hidden},
		{stream: "generated/v1/services", label: "generated status.*", where: `body\.spec\.internalTrafficPolicy`,
			peer: `^(Cluster|Local)$`, kelson: `^\(absent\)$`, why: hidden, chance: true},
		// the error quotes the stored object
		{stream: "generated/v1/services", label: "(generated|mutated) (patch|status).*",
			where:  `body\.(message|details\.causes\[\]\.message)`,
			peer:   `Invalid value: "\{\\"apiVersion\\":\\"v1\\",\\"kind\\":\\"Service\\"`,
			kelson: `Invalid value: "\{\\"apiVersion\\":\\"v1\\",\\"kind\\":\\"Service\\"`, why: hidden, chance: true},
		{stream: "documents/paths", label: `.* /(healthz|livez|readyz)(/.*|\?.*)?`,
			where: `status|body|header (Content-Type|X-Content-Type-Options)`, why: itself},
		{stream: "documents/paths", label: `(GET|POST|protobuf|yaml|xml) /(index.html)?`, where: `body\.paths.*`,
			why: itself},
		{stream: "documents/paths", label: `.* /(statusz|flagz|metrics/slis|debug/pprof/)`, where: `body`, why: itself},
		{stream: "generated/v1/pods", where: "status",
			peer:   `^500 invalid resource name ".*": \[may not (contain '/'|be '\.\.?')\]$`,
			kelson: `RuntimeClass ".*" not found$`,
			why:    "a RuntimeClass with an invalid name is not found; kube-apiserver cannot request it from itself",
			chance: true},
		{stream: "generated/batch/v1/jobs", label: "(generated|mutated) .*", where: "connection",
			peer: `INTERNAL_ERROR`, kelson: `^$`, why: panics, chance: true},
		{stream: "generated/.*", label: "mutated patch|generated status, strategic", where: "connection",
			peer: `INTERNAL_ERROR`, kelson: `^$`, why: panics, chance: true},
		{stream: "custom/.*/verbs", label: `create (content type application/vnd\.kubernetes\.protobuf|(bad|empty|no) protobuf)`, where: "connection", peer: `INTERNAL_ERROR`, why: panics},
		{stream: "documents/paths", label: `POST /api/v1/namespaces//pods`,
			why: "a path with an empty namespace creates nothing; kube-apiserver continues with the body"},
		{stream: "custom/.*/verbs", label: `scale apply.*`,
			peer: `failed to create manager for existing fields.*request to convert CR to an invalid group/version: autoscaling/v1`, why: scales},
		{stream: "custom/.*/verbs", label: `scale (update .*|object itself)`, where: `body\.message`,
			peer: `^no kind is registered for the type v1\.Scale in scheme`, why: scales},
		{stream: "admissionregistration.k8s.io/v1/validatingadmissionpolicies", label: "status apply missing",
			why: "an apply to the status of a missing policy gets 404; kube-apiserver would create the policy"},
	}
}
