package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kelson.dev/test/child"
	"kelson.dev/test/peers"
)

// side is a server that is attacked.
type side string

const (
	kelson side = "kelson"
	peer   side = "kube-apiserver"
)

// chosenSides returns the sides that -sides names and whose binaries exist.
func (o *options) chosenSides(r *report) (chosen []side) {
	for _, s := range []side{kelson, peer} {
		if !strings.Contains(","+o.sides+",", ","+string(s)+",") {
			continue
		}
		if _, err := os.Stat(filepath.Join(o.peers, string(peer))); s == peer && err != nil {
			r.alone = true
			continue
		}
		chosen = append(chosen, s)
	}
	return chosen
}

// server is a running side, with the users, roles and tenant's namespace that all attacks need.
type server struct {
	target    *target
	dir       string
	disk      string   // mount point of a small file system with the state; empty: none
	args      []string // of kelson
	logs      string   // folder for the logs; empty: they are discarded
	processes []*child.Process
}

// start starts a side with an empty durable state, and waits until it is ready. If small, the state
// is in a small file system.
func (o *options) start(ctx context.Context, s side, small bool) (_ *server, err error) {
	dir, err := os.MkdirTemp(o.scratch, string(s)+"-")
	if err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	srv := &server{dir: dir, logs: o.logs, target: &target{addr: "127.0.0.1:" + port, keys: o.scratch}}
	defer func() {
		if err != nil {
			srv.stop()
		}
	}()
	key := func(name string) string { return filepath.Join(o.scratch, name) }
	if s == kelson {
		state := dir
		if small {
			if err := srv.mountSmall(); err != nil {
				return nil, err
			}
			state = srv.disk
		}
		srv.args = []string{"serve", "--node=none", "--secure-port", port, "--data-dir", filepath.Join(state, "data"),
			"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--client-ca-file", key("ca.crt")}
		err = srv.run(o.kelson, srv.args...)
	} else {
		err = o.startPeer(srv, port)
	}
	if err != nil {
		return nil, err
	}
	if err := srv.ready(ctx); err != nil {
		return nil, err
	}
	return srv, prepareUsers(ctx, srv.target)
}

func (o *options) startPeer(srv *server, port string) error {
	etcd, url, err := peers.Etcd(o.peers, srv.dir)
	if err != nil {
		return err
	}
	srv.processes = append(srv.processes, etcd)
	api, err := peers.APIServer(o.peers, srv.dir, o.scratch, url, port)
	if err != nil {
		return err
	}
	srv.processes = append(srv.processes, api)
	return nil
}

func (s *server) run(binary string, args ...string) error {
	p, err := child.Start(s.dir, binary, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// stop ends the processes in reverse order, and removes their state.
func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop(5 * time.Second)
		if s.logs != "" {
			log := fmt.Sprintf("%s-%s.log", filepath.Base(s.dir), filepath.Base(s.processes[i].Path))
			_ = os.WriteFile(filepath.Join(s.logs, log), []byte(s.processes[i].Output()), 0o644)
		}
	}
	if s.disk != "" {
		_ = syscall.Unmount(s.disk, 0)
	}
	os.RemoveAll(s.dir)
}

// restart restarts kelson.
func (s *server) restart() error {
	old := s.processes[0]
	old.Stop(20 * time.Second)
	s.processes = nil
	return s.run(old.Path, s.args...)
}

// ready waits until the server serves the objects that every cluster has.
func (s *server) ready(ctx context.Context) error {
	api := s.processes[len(s.processes)-1]
	return api.Await(ctx, 2*time.Minute, func(ctx context.Context) error {
		for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
			if status, err := s.target.send(ctx, admin, http.MethodGet, path, "", ""); status != http.StatusOK {
				return fmt.Errorf("%s: %d, %v", path, status, err)
			}
		}
		return nil
	})
}

// The users. Anonymous requests have no certificate.
const (
	anonymous = ""
	admin     = "admin"  // in system:masters
	norole    = "norole" // without a role
	editor    = "editor" // has the role edit in the namespace default
	innocent  = "tenant" // has the role edit in the namespace tenant
)

// writeKeys writes an authority for all servers and users.
func writeKeys(dir string) error {
	authority, err := peers.WriteKeys(dir, "attack")
	if err != nil {
		return err
	}
	for _, user := range []string{admin, norole, editor, innocent} {
		var groups []string
		if user == admin {
			groups = []string{"system:masters"}
		}
		pair, err := authority.Client(user, groups...)
		if err == nil {
			err = peers.WritePair(dir, user, pair)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareUsers creates the tenant's namespace and the roles. kube-apiserver's role edit is empty
// without the controller manager, which aggregates it. Both sides therefore get a role with the
// rules of edit that the attacks need.
func prepareUsers(ctx context.Context, t *target) error {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	role := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"attack-edit"},"rules":[
		{"apiGroups":[""],"resources":["configmaps","replicationcontrollers","secrets","services"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]},
		{"apiGroups":["apps"],"resources":["deployments"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]}]}`
	binding := func(user string) string {
		return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"attack"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"attack-edit"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, user)
	}
	return t.create(ctx, admin, [][2]string{
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"tenant"}}`},
		{rbac + "clusterroles", role},
		{rbac + "namespaces/default/rolebindings", binding(editor)},
		{rbac + "namespaces/tenant/rolebindings", binding(innocent)},
	})
}
