// Package record writes down which requests the operators of tests send, for kelson rights.
//
// operatortest and kelson.dev/lab/testenv pass the configuration of every operator to [Wrap]. Wrap
// does nothing unless the environment variable of [Dir] is set. kelson rights --test sets it. Then
// each request that needs a rule of RBAC is written to a file of the process in that folder, once
// for each verb, resource, namespace and name, as an event of the audit log (audit.k8s.io/v1) by
// [User].
//
// All functions are safe for concurrent use, even in several testing/synctest bubbles.
package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client/faults"
)

// Environment variables of a test process.
const (
	// Dir names the folder of the recordings.
	Dir = "KELSON_RIGHTS_RECORD"
	// Roles names a file with Roles and ClusterRoles. The operators of all tests have these rights
	// instead of their own.
	Roles = "KELSON_RIGHTS_ROLES"
	// Stop makes the process exit with [Refused] when RBAC refuses a request, if it is "true".
	Stop = "KELSON_RIGHTS_STOP"
)

// User is the user of all recorded requests.
const User = "operator"

// Refused is the exit code of a process in which RBAC has refused a request.
const Refused = 97

// Wrap records the requests of a client with this configuration, if the environment variable of
// [Dir] is set. It changes config. Without Roles, the client gets an administrator's rights, so
// that a request that its own rights do not allow does not hide the later ones.
func Wrap(config *rest.Config) {
	if dir := os.Getenv(Dir); dir != "" {
		if os.Getenv(Roles) == "" {
			config.Impersonate = rest.ImpersonationConfig{}
		}
		base := ""
		if host, err := url.Parse(config.Host); err == nil {
			base = strings.TrimSuffix(host.Path, "/")
		}
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return transport{inner, dir, base} })
	}
}

// transport records the requests that it passes on.
type transport struct {
	inner http.RoundTripper
	dir   string
	base  string // the path of the server, such as that of a throwaway plane
}

// WrappedRoundTripper returns the transport below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.inner }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	call, err := faults.CallOf(r)
	if err != nil {
		return nil, err
	}
	if below, ok := strings.CutPrefix(call.Path, t.base+"/"); ok {
		call.Path = "/" + below
	}
	if call.Name == "" {
		call.Name = selected(r.URL)
	}
	// Record the request first: it counts even if its response is lost.
	if err := write(t.dir, eventOf(call, 0, "")); err != nil {
		return nil, err
	}
	resp, err := t.inner.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusCreated && call.Verb != faults.Create {
		// An update or a patch that has created the object needs the verb create, too.
		if err := write(t.dir, eventOf(call, resp.StatusCode, "")); err != nil {
			return nil, err
		}
	}
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if message := messageOf(body); byAuthorizer(message) {
		if err := write(t.dir, eventOf(call, http.StatusForbidden, message)); err != nil {
			return nil, err
		}
		if os.Getenv(Stop) == "true" {
			os.Exit(Refused)
		}
	}
	return resp, nil
}

// selected returns the name that the field selector of a list or watch requires; "" for none. RBAC
// compares it with resourceNames.
func selected(u *url.URL) string {
	selector, err := fields.ParseSelector(u.Query().Get("fieldSelector"))
	if err != nil {
		return "" // the server refuses the request
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	return name
}

// messageOf returns the message of a Status in JSON or protobuf; "" if the body is not a Status.
func messageOf(body []byte) string {
	var status metav1.Status
	if raw, ok := bytes.CutPrefix(body, []byte("k8s\x00")); ok {
		var unknown runtime.Unknown
		if unknown.Unmarshal(raw) != nil || status.Unmarshal(unknown.Raw) != nil {
			return ""
		}
		return status.Message
	}
	if json.Unmarshal(body, &status) != nil {
		return ""
	}
	return status.Message
}

// byAuthorizer reports whether the message of a 403 is from the authorizer. Admission also refuses
// requests with 403.
func byAuthorizer(message string) bool {
	return strings.Contains(message, `User "`) && strings.Contains(message, `" cannot `)
}

// event is an event of the audit log.
type event struct {
	Kind       string     `json:"kind"`
	APIVersion string     `json:"apiVersion"`
	Level      string     `json:"level"`
	Stage      string     `json:"stage"`
	URI        string     `json:"requestURI"`
	Verb       string     `json:"verb"`
	User       user       `json:"user"`
	Object     *objectRef `json:"objectRef,omitempty"`
	Status     *status    `json:"responseStatus,omitempty"`
	Time       string     `json:"stageTimestamp"`
}

type user struct {
	Username string `json:"username"`
}

type objectRef struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace,omitempty"`
	Group       string `json:"apiGroup,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

// eventOf returns the event of a call. code is 0 if there is no response yet.
func eventOf(call faults.Call, code int, message string) event {
	e := event{Kind: "Event", APIVersion: "audit.k8s.io/v1", Level: "Metadata", Stage: "ResponseComplete",
		URI: call.Path, Verb: string(call.Verb), User: user{User}}
	if call.Verb == faults.Apply {
		e.Verb = "patch"
	}
	if call.Path == "" {
		resource, group, _ := strings.Cut(call.Resource, ".")
		sub, _, _ := strings.Cut(call.Subresource, "/") // the rest is the path of a proxy
		e.Object = &objectRef{Resource: resource, Group: group, Namespace: call.Namespace, Subresource: sub}
		if call.Verb != faults.Create {
			e.Object.Name = call.Name
		}
	}
	if code != 0 {
		e.Status = &status{code, message}
	}
	return e
}

// file is the recording of this process.
var file struct {
	mu   sync.Mutex
	out  *os.File
	dir  string
	seen map[string]bool
}

// write adds an event to the recording, unless it has an equal one.
func write(dir string, e event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file.mu.Lock()
	defer file.mu.Unlock()
	if file.out == nil || file.dir != dir {
		out, err := os.CreateTemp(dir, fmt.Sprintf("%d-*.log", os.Getpid()))
		if err != nil {
			return fmt.Errorf("record requests: %w", err)
		}
		if file.out != nil {
			file.out.Close()
		}
		file.out, file.dir, file.seen = out, dir, map[string]bool{}
	}
	if file.seen[string(line)] {
		return nil
	}
	file.seen[string(line)] = true
	e.Time = time.Now().UTC().Format(metav1.RFC3339Micro)
	if line, err = json.Marshal(e); err != nil {
		return err
	}
	if _, err := file.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("record requests: %w", err)
	}
	return nil
}
