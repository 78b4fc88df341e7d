package plan

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/cmd/kelson/internal/dev/deployed"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/plan"
	"kelson.dev/operator/trace"
)

// operatorProcess is a version of the operator, ready to run.
type operatorProcess struct {
	project *project.Project
	binary  string
	user    string                       // of its service account; "": unknown
	install []*unstructured.Unstructured // its definitions and roles
	args    []string
	env     []string
	notes   []string
}

// build compiles a project's operator to a file in the folder temp.
func build(ctx context.Context, p *project.Project, temp string) (*operatorProcess, error) {
	binary := filepath.Join(temp, "old")
	if err := p.Build(ctx, binary); err != nil {
		return nil, err
	}
	return configured(p, binary)
}

// installed are the kinds that belong to an operator and must exist before it runs.
var installed = []string{
	"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
	"RoleBinding",
}

// configured reads how a project deploys its operator.
func configured(p *project.Project, binary string) (*operatorProcess, error) {
	op := &operatorProcess{project: p, binary: binary, env: []string{"ENABLE_WEBHOOKS=false"}}
	var all manifests.Objects
	m, err := (&deployed.Source{Dir: p.Dir}).Read()
	switch {
	case errors.Is(err, deployed.ErrNone):
		for _, folder := range []string{"crd", "rbac"} {
			found, err := manifests.Folder(filepath.Join(p.Dir, "config", folder))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		op.user = soleAccount(all)
	case err != nil:
		return nil, err
	default:
		all = append(append(all, m.Definitions...), m.Objects...)
		pod := m.Manager.Spec.Template.Spec
		if pod.ServiceAccountName != "" {
			op.user = serviceaccount.MakeUsername(m.Manager.Namespace, pod.ServiceAccountName)
		}
		op.adopt(m.Manager.Namespace, pod.ServiceAccountName, pod.Containers[0])
		op.notes = m.Notes
	}
	own, err := declared(p.Main)
	if err != nil {
		return nil, err
	}
	op.args = append(op.args, own...)
	for _, obj := range all {
		if slices.Contains(installed, obj.GetKind()) {
			op.install = append(op.install, obj)
		}
	}
	op.install = append(op.install, namespacesOf(op.install)...)
	slices.SortStableFunc(op.install, func(a, b *unstructured.Unstructured) int {
		return slices.Index(installed, a.GetKind()) - slices.Index(installed, b.GetKind())
	})
	return op, nil
}

// namespacesOf returns Namespaces for the objects whose namespace is not among the objects.
// [plan.Run] does not change Namespaces that exist.
func namespacesOf(all []*unstructured.Unstructured) (missing []*unstructured.Unstructured) {
	known := map[string]bool{"": true}
	for _, obj := range all {
		if obj.GetKind() == "Namespace" {
			known[obj.GetName()] = true
		}
	}
	for _, obj := range all {
		if name := obj.GetNamespace(); !known[name] {
			known[name] = true
			namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
			namespace.SetName(name)
			missing = append(missing, namespace)
		}
	}
	return missing
}

// soleAccount returns the user of the only service account; "" if there is none or several.
func soleAccount(all manifests.Objects) (user string) {
	for _, obj := range all {
		if obj.GetKind() != "ServiceAccount" {
			continue
		}
		if user != "" {
			return ""
		}
		namespace := obj.GetNamespace()
		if namespace == "" {
			namespace = "default"
		}
		user = serviceaccount.MakeUsername(namespace, obj.GetName())
	}
	return user
}

// adopt copies the arguments and the environment of the operator's container.
func (op *operatorProcess) adopt(namespace, serviceAccount string, c corev1.Container) {
	for _, arg := range c.Args {
		if arg := quietArgument(arg); arg != "" {
			op.args = append(op.args, arg)
		}
	}
	for _, v := range c.Env {
		value := v.Value
		if v.ValueFrom != nil {
			if v.ValueFrom.FieldRef == nil {
				continue // ConfigMaps and Secrets of the deployment
			}
			switch v.ValueFrom.FieldRef.FieldPath {
			case "metadata.namespace":
				value = namespace
			case "metadata.name":
				value = "kelson-plan"
			case "spec.serviceAccountName":
				value = serviceAccount
			default:
				continue
			}
		}
		if v.Name != "ENABLE_WEBHOOKS" && v.Name != "KUBECONFIG" {
			op.env = append(op.env, v.Name+"="+value)
		}
	}
}

// quietArgument returns the argument that replaces an argument of the operator's container on a
// copy, so that the operator does not listen, read certificates or elect a leader. "" means to omit
// the argument.
func quietArgument(arg string) string {
	name, _, valued := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if !strings.HasPrefix(arg, "-") {
		return arg
	}
	switch {
	case strings.HasSuffix(name, "bind-address") && valued, name == "metrics-addr" && valued, name == "health-addr" &&
		valued:
		return "--" + name + "=0"
	case strings.Contains(name, "leader-elect"), strings.Contains(name, "leader-election"),
		strings.Contains(name, "cert-path"), strings.Contains(name, "cert-dir"):
		return ""
	}
	return arg
}

// quieting maps flags that most operators have to values that turn off listening and leader
// election.
var quieting = []struct{ name, value string }{{"leader-elect", "false"}, {"metrics-bind-address", "0"},
	{"health-probe-bind-address", "0"}}

// declared returns arguments for those flags of quieting that the main package declares.
func declared(main string) (args []string, err error) {
	files, err := filepath.Glob(filepath.Join(main, "*.go"))
	if err != nil {
		return nil, err
	}
	var source []byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		source = append(source, text...)
	}
	for _, f := range quieting {
		if bytes.Contains(source, []byte(strconv.Quote(f.name))) {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	return args, nil
}

// run runs the operator on a copy until ctx ends.
func (op *operatorProcess) run(ctx context.Context, to plan.Target, temp string, args []string,
	log *operatorLog) error {
	dir, err := os.MkdirTemp(temp, "run-")
	if err != nil {
		return err
	}
	kubeconfig, stop, err := serve(to.Handler, dir)
	if err != nil {
		return err
	}
	defer stop()
	p := *op.project
	p.Args = append(append(slices.Clone(p.Args), op.args...), args...)
	process, err := p.Run(op.binary, kubeconfig, listener{log, to.Reconciled}, op.env...)
	if err != nil {
		return err
	}
	defer process.Stop()
	select {
	case err := <-process.Ended():
		<-process.Done()
		return err
	case <-ctx.Done():
		return nil
	}
}

// serve serves a control plane to the operator only: on a loopback port, with a token that the
// returned kubeconfig has.
func serve(handler http.Handler, dir string) (kubeconfig string, stop func(), err error) {
	authority, err := pki.NewAuthority("kelson-plan")
	if err != nil {
		return "", nil, err
	}
	pair, err := authority.Server("127.0.0.1")
	if err != nil {
		return "", nil, err
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return "", nil, err
	}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	token := rand.Text()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
				return
			}
			r.Header.Del("Authorization")
			handler.ServeHTTP(w, r)
		}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate},
			NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = server.ServeTLS(listening, "", "") }() // ends with Close
	stop = func() { _ = server.Close() }
	config := api.NewConfig()
	config.Clusters["copy"] = &api.Cluster{Server: "https://" + listening.Addr().String(),
		CertificateAuthorityData: authority.PEM}
	config.AuthInfos["operator"] = &api.AuthInfo{Token: token}
	config.Contexts["copy"] = &api.Context{Cluster: "copy", AuthInfo: "operator"}
	config.CurrentContext = "copy"
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		stop()
		return "", nil, err
	}
	return kubeconfig, stop, nil
}

// listener receives the output and the reconciles of the operator.
type listener struct {
	log        *operatorLog
	reconciled func(trace.LineRecord)
}

var _ project.Listener = listener{}

// Output implements project.Listener.
func (l listener) Output(string) io.WriteCloser { return l.log }

// Reconcile implements project.Listener.
func (l listener) Reconcile(r trace.LineRecord) { l.reconciled(r) }

// operatorLog keeps the end of the operator's output. It is safe for concurrent use.
type operatorLog struct {
	also io.Writer // all output; may be nil

	mu   sync.Mutex
	last []byte
}

// maxLog is how much of the operator's output is kept, in bytes.
const maxLog = 4 << 10

// Write implements io.Writer.
func (l *operatorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = append(l.last, p...); len(l.last) > 2*maxLog {
		l.last = append(l.last[:0], l.last[len(l.last)-maxLog:]...)
	}
	if l.also != nil {
		return l.also.Write(p)
	}
	return len(p), nil
}

// Close implements io.Closer.
func (l *operatorLog) Close() error { return nil }

func (l *operatorLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.last[max(0, len(l.last)-maxLog):]))
}
