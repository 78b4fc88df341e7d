package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kelson.dev/test/child"
)

// The requests that the namespace controller and the garbage collector send when a client deletes a
// namespace and owners are compared with those of kube-controller-manager, from the audit logs of
// both servers. Their order and their number differ, because both retry; so does the moment at
// which they read. A policy or a webhook sees the same writes of the same users.

// auditPolicy records the writes of the two controllers.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
	{"level":"Metadata","verbs":["create","update","patch","delete","deletecollection"],
		"users":["system:serviceaccount:kube-system:namespace-controller","system:serviceaccount:kube-system:generic-garbage-collector"]},
	{"level":"None"}]}`

// auditFlags are the flags of a server that writes the audit log of deletions. dir has the policy.
func auditFlags(dir, name string) []string {
	return []string{"--audit-policy-file", filepath.Join(dir, "audit-policy.json"), "--audit-log-path",
		auditLog(dir, name)}
}

func auditLog(dir, name string) string { return filepath.Join(dir, name+".audit") }

// controllers starts kube-controller-manager on the peer, with the controllers of namespaces and
// garbage collection and those that create objects in every namespace, and kelson serve with its
// own controllers. It returns the side of the latter.
func (s *servers) controllers(ctx context.Context, dir, kelson, components string) (*side, error) {
	config := filepath.Join(dir, "admin.kubeconfig")
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"a","user":{"client-certificate":%q,"client-key":%q}}]}`,
		s.peer.url, file("ca.crt"), file("admin.crt"), file("admin.key"))), 0o600); err != nil {
		return nil, err
	}
	if _, err := s.start(dir, filepath.Join(components, "kube-controller-manager"), "--kubeconfig", config,
		"--leader-elect=false", "--secure-port=0",
		"--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller",
		"--use-service-account-credentials=true", "--root-ca-file", file("ca.crt"),
		"--service-account-private-key-file", file("sa.key")); err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, "serve")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--node=none", "--secure-port", port, "--data-dir", filepath.Join(own, "data"),
		"--kubeconfig", filepath.Join(own, "kubeconfig"),
		"--client-ca-file", file("ca.crt")}, auditFlags(dir, "serve")...)
	p, err := s.start(own, kelson, args...)
	if err != nil {
		return nil, err
	}
	admin, err := tls.LoadX509KeyPair(file("admin.crt"), file("admin.key"))
	if err != nil {
		return nil, err
	}
	// The server has a certificate of its own.
	serve := &side{name: "kelson serve", url: "https://127.0.0.1:" + port,
		client: newClient(&tls.Config{Certificates: []tls.Certificate{admin}, InsecureSkipVerify: true})}
	return serve, ready(ctx, p, serve)
}

// deletions deletes a namespace and owners on the peer and on kelson serve, and compares the
// requests of the controllers. It starts controllers on the peer and must run last.
func (r *runner) deletions(ctx context.Context, s *servers, opts options) ([]difference, error) {
	const own = "d-deletions"
	serve, err := s.controllers(ctx, opts.work, opts.kelson, opts.components)
	if err != nil {
		return nil, err
	}
	var all [2][]string
	for i, side := range []*side{s.peer, serve} {
		if err := side.deletes(ctx, own); err != nil {
			return nil, fmt.Errorf("deletions on %s: %w", side.name, err)
		}
		if all[i], err = controllersWrites(auditLog(opts.work, []string{"kube-apiserver", "serve"}[i]),
			own); err != nil {
			return nil, err
		}
	}
	r.count += len(deletionSteps(own))
	var found []difference
	differ := func(peer, kelson string) {
		found = append(found, difference{finding: finding{"request", peer, kelson}, stream: "controllers/deletions",
			label: "writes of controllers", round: "s0"})
	}
	for _, write := range all[0] {
		if !slices.Contains(all[1], write) {
			differ(write, "(absent)")
		}
	}
	for _, write := range all[1] {
		if !slices.Contains(all[0], write) {
			differ("(absent)", write)
		}
	}
	return found, nil
}

// deletionStep is a request, repeated until it has the status, or one of an object for which done
// reports true.
type deletionStep struct {
	step
	status int
	done   func(obj any) bool
}

func deletionSteps(own string) []deletionStep {
	var steps []deletionStep
	post := func(path, obj string) {
		steps = append(steps, deletionStep{step: step{method: http.MethodPost, path: path, body: raw(obj)},
			status: http.StatusCreated})
	}
	get := func(path string, status int, done func(any) bool) {
		steps = append(steps, deletionStep{step: step{method: http.MethodGet, path: path,
			save: path[strings.LastIndex(path, "/")+1:]}, status: status, done: done})
	}
	remove := func(path string) {
		steps = append(steps, deletionStep{step: step{method: http.MethodDelete, path: path}, status: http.StatusOK})
	}
	group := own + ".example.com"
	post(definitionsPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"deletables.`+group+`"},"spec":{"group":"`+group+`","scope":"Namespaced",
		"names":{"plural":"deletables","kind":"Deletable"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	post("/api/v1/namespaces", `{"metadata":{"name":"`+own+`"}}`)
	inside := "/api/v1/namespaces/" + own
	get(inside+"/serviceaccounts/default", http.StatusOK, nil)
	get(inside+"/configmaps/kube-root-ca.crt", http.StatusOK, nil)
	post("/apis/"+group+"/v1/namespaces/"+own+"/deletables",
		`{"apiVersion":"`+group+`/v1","kind":"Deletable","metadata":{"name":"a"}}`)
	post(inside+"/configmaps", `{"metadata":{"name":"a"}}`)
	post(inside+"/secrets", `{"metadata":{"name":"a"}}`)
	post(inside+"/secrets", `{"metadata":{"name":"b"}}`)
	post(inside+"/pods", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	const maps = "/api/v1/namespaces/default/configmaps"
	policies := []string{"Background", "Foreground", "Orphan"}
	for _, policy := range policies {
		name := own + "-" + strings.ToLower(policy)
		post(maps, `{"metadata":{"name":"`+name+`"}}`)
		get(maps+"/"+name, http.StatusOK, nil)
		post(maps, `{"metadata":{"name":"`+name+
			`-child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"`+name+`","uid":"{uid:`+name+
			`}","blockOwnerDeletion":true}]}}`)
	}
	// The garbage collector deletes an orphan that it has not seen yet, so that comes last.
	for _, policy := range policies {
		name := own + "-" + strings.ToLower(policy)
		remove(maps + "/" + name + "?propagationPolicy=" + policy)
		get(maps+"/"+name, http.StatusNotFound, nil)
		if policy != "Orphan" {
			get(maps+"/"+name+"-child", http.StatusNotFound, nil)
			continue
		}
		get(maps+"/"+name+"-child", http.StatusOK, func(obj any) bool {
			return at(obj, "metadata", "ownerReferences") == nil
		})
	}
	remove("/api/v1/namespaces/" + own)
	get("/api/v1/namespaces/"+own, http.StatusNotFound, nil)
	return steps
}

// deletes sends the requests of deletionSteps.
func (s *side) deletes(ctx context.Context, own string) error {
	m := newMemory()
	for _, st := range deletionSteps(own) {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			a := s.send(ctx, &st.step, m)
			if a.status == st.status && (st.done == nil || st.done(a.body)) {
				m.objects[st.save], _ = a.body.(map[string]any)
				break
			}
			if ctx.Err() != nil || time.Now().After(deadline) {
				return errors.Join(ctx.Err(), fmt.Errorf("%s %s: %s%d %v", st.method, st.path, a.failed, a.status,
					a.body))
			}
		}
	}
	return nil
}

// controllersWrites reads the writes of the controllers to the objects of deletionSteps from an
// audit log: who, verb, resource, name and status, sorted and without repetitions. It omits
// conflicts, and DELETEs of collections that have no object in the namespace: Kelson's namespace
// controller reads which kinds have objects, and sends none for the others.
func controllersWrites(file, own string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		ref := e.ObjectRef
		if ref == nil || e.ResponseStatus == nil || e.ResponseStatus.Code == http.StatusConflict {
			continue
		}
		if !strings.HasPrefix(ref.Namespace, own) && !strings.HasPrefix(ref.Name, own) ||
			ref.Name == "" && !slices.Contains([]string{"configmaps", "secrets", "pods", "deletables",
				"serviceaccounts"}, ref.Resource) {
			continue
		}
		all = append(all, fmt.Sprintf("%s %s %s/%s.%s %s/%s %d", e.User.Username, e.Verb, ref.Resource, ref.Subresource,
			ref.APIGroup, ref.Namespace, ref.Name, e.ResponseStatus.Code))
	}
	slices.Sort(all)
	return slices.Compact(all), lines.Err()
}
