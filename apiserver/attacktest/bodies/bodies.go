// Package bodies builds the requests of attacks on a control plane's processor time: bodies within
// the size limits of Kubernetes that cost a naive server far more than reading them.
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
	// Admin says that an administrator must send the preparing requests. The attack itself needs no
	// more than the role edit in the namespace default, and admin where the name begins with
	// "rbac".
	Admin   bool
	Setup   []Request
	Request Request
}

// limit is the size of the largest body that kube-apiserver reads, less room for what surrounds the
// repeated part.
const limit = 3<<20 - 4096

const namespace = "/api/v1/namespaces/default/"

// List repeats an element n times as a JSON list. An element with %d in it gets its index there.
func List(n int, element string) string { return "[" + Elements(0, n, element) + "]" }

// Elements gives the elements from index a up to b, with commas between them.
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

// Fill gives as many elements as fit into size bytes.
func Fill(size int, element string) string {
	each := len(element) + 1
	if strings.Contains(element, "%d") {
		each += 4 // most indexes have six digits
	}
	return Elements(0, size/each, element)
}

// Object gives an object of a kind with further members.
func Object(apiVersion, kind, name, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, apiVersion, kind, name, members)
}

func create(path, body string) Request { return Request{"POST", path, JSON, body} }

func patch(path, media, body string) Request { return Request{"PATCH", path, media, body} }

// All gives every attack. scale is the size of the bodies, as a part of the largest ones that are
// possible.
func All(scale float64) []Attack {
	s := scaled(scale)
	var all []Attack
	for _, of := range [][]Attack{s.strategic(), s.jsonPatches(), s.owners(), s.wide(), s.reviews(), s.custom()} {
		all = append(all, of...)
	}
	return all
}

// scaled makes the attacks of a size.
type scaled float64

// n scales a number of elements.
func (s scaled) n(full int) int { return max(1, int(float64(full)*float64(s))) }

// size is how large a body may be.
func (s scaled) size() int { return s.n(limit) }
