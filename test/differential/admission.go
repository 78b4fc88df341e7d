package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"kelson.dev/test/admission/attributes"
)

// attributeStream compares what admission webhooks receive for requests of every verb on every form
// of path. It must run alone, because its webhooks match all requests.
func attributeStream() *stream {
	return &stream{name: "admission/attributes", alone: true, reviewed: true, steps: func(own string) []step {
		var steps []step
		for _, request := range attributes.Definitions(own) {
			st := stepOf(request)
			st.always, st.established, st.soon = true, request.Ready, request.Ready
			steps = append(steps, st)
		}
		for i := range attributes.Configurations {
			st := step{label: "webhooks", method: http.MethodPost, always: true,
				path: attributes.Configurations[i].Path}
			st.body = func(m *memory) []byte { return []byte(m.hook.Configuration(i, own)) }
			st.unanswered = true // each side has its own webhook
			steps = append(steps, st)
		}
		steps = append(steps, step{label: "webhooks are called", method: http.MethodPost, always: true, hooked: true,
			path: "/api/v1/namespaces/" + own + "/configmaps?dryRun=All", header: impersonated(nil),
			body: raw(`{"metadata":{"name":"probe"}}`)})
		for _, request := range attributes.Requests(own) {
			st := stepOf(request)
			st.header, st.unanswered = impersonated(st.header), request.Unanswered
			steps = append(steps, st)
		}
		for _, configuration := range attributes.Configurations {
			steps = append(steps, step{label: "remove the webhooks", method: http.MethodDelete,
				path: configuration.Path + "/" + own, always: true})
		}
		return steps
	}}
}

func stepOf(request attributes.Request) step {
	st := step{label: request.Name, method: request.Method, path: request.Path}
	if request.Body != "" {
		st.body = raw(request.Body)
	}
	if request.ContentType != "" {
		st.header = map[string]string{"Content-Type": request.ContentType}
	}
	return st
}

// impersonated adds the headers of the user whose requests are recorded.
func impersonated(header map[string]string) map[string]string {
	all := map[string]string{}
	for _, from := range []map[string]string{header, attributes.Impersonation} {
		for key, value := range from {
			all[key] = value
		}
	}
	return all
}

// reviews compares what the recorders received for a step, and keeps that of the peer.
func (r *runner) reviews(c *comparer, st *step, own string, answer *answer) []finding {
	peer, kelson := r.peer.hook.Take(), r.kelson.hook.Take()
	if st.hooked {
		return nil // repeated a different number of times
	}
	if st.header["Impersonate-User"] != "" {
		r.attributes = append(r.attributes, attributes.Record(st.label, own, answer.status, peer))
	}
	c.found = nil
	c.value("reviews", "", reviewed(peer), reviewed(kelson))
	return c.found
}

// reviewed returns calls as JSON values by their path.
func reviewed(calls []attributes.Call) any {
	all := map[string]any{}
	for _, call := range calls {
		request := *call.Request
		request.UID = ""
		data, err := json.Marshal(&request)
		if err != nil {
			panic(fmt.Sprintf("encode a review: %v", err)) // it was decoded from JSON
		}
		v, err := decodeJSON(data)
		if err != nil {
			panic(fmt.Sprintf("decode a review: %v", err))
		}
		list, _ := all[call.Path].([]any)
		all[call.Path] = append(list, v)
	}
	return all
}
