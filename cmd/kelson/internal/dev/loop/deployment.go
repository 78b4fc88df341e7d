package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/cmd/kelson/internal/dev/deployed"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/kubernetes/node"
	"kelson.dev/operator/client"
)

// startAnnotation of the operator's pod counts its starts.
const startAnnotation = "kelson.dev/start"

// readyTimeout is how long the loop waits for the operator's pod before it applies samples, and for
// the webhooks of samples.
const readyTimeout = 90 * time.Second

// deployment runs the operator of an existing project as the project deploys it.
type deployment struct {
	source       *deployed.Source
	namespace    string // of the operator's pod
	current      *deployed.Manifests
	node         *deployed.Node
	dependencies deployed.Dependencies
	missing      chan need       // what the operator needs and the project does not deploy
	looked       map[string]bool // API groups whose definitions were looked for
	skipped      map[string]bool // versions of kinds that the cluster does not serve
	certified    bool            // certify was called
	hinted       bool            // hint was called
	starts       int
}

// A need of an operator names something that its project does not deploy. One field is set.
type need struct {
	group  string // the definitions of an API group
	folder string // a certificate for its webhooks, in a folder of its pod
}

// newDeployment starts the node of the operator's pod. It returns nil, and logs why, if the project
// or the machine cannot run it that way.
func newDeployment(l *Loop) (*deployment, error) {
	p := l.cfg.Project
	d := &deployment{
		source:       &deployed.Source{Dir: p.Dir, Loopback: loopback(node.MachineAddress())},
		dependencies: deployed.Dependencies{Main: p.Main, Temp: l.temp},
		missing:      make(chan need, 16), looked: map[string]bool{}, skipped: map[string]bool{},
	}
	var err error
	if d.current, err = d.read(l); errors.Is(err, deployed.ErrNone) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	d.namespace = d.current.Manager.Namespace
	cfg := *l.cfg.Deploy
	cfg.Dir = filepath.Join(l.temp, "node")
	if l.cfg.AuditLog != "" {
		l.cfg.Log.Printf("rights", "kelson rights %s --audit-log %s --user %s", p.Dir, l.cfg.AuditLog,
			d.current.User())
	}
	refusals := d.current.NewRefusals()
	cfg.Output = func() io.WriteCloser {
		return &watchedOutput{WriteCloser: l.cfg.Log.Output(l.subject()), each: func(line string) {
			d.report(need{group: deployed.MissingGroup(line), folder: deployed.MissingCertificate(line)})
			if text := refusals.Explain(line); text != "" {
				l.cfg.Log.Printf("rights", "%s", text)
			}
		}}
	}
	cfg.Ended = func(exit node.Exit) {
		d.release(l)
		if exit.Code != 0 {
			l.cfg.Log.Printf(l.subject(), "exited with code %d", exit.Code)
		}
	}
	if d.node, err = deployed.StartNode(cfg); errors.Is(err, deployed.ErrUnsupported) {
		l.cfg.Log.Printf(l.subject(), "runs without the arguments and volumes of its Deployment: %v", err)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, note := range d.current.Notes {
		l.cfg.Log.Printf("manifests", "%s", note)
	}
	return d, nil
}

func loopback(address string) bool { return net.ParseIP(address).IsLoopback() }

// read reads what the project deploys, without webhooks if the user has disabled them. If it
// deploys no definitions, they are those of the project.
func (d *deployment) read(l *Loop) (*deployed.Manifests, error) {
	m, err := d.source.Read()
	if err != nil {
		return nil, err
	}
	if !l.cfg.Webhooks {
		m.DisableWebhooks()
		withoutConversion(m.Definitions)
	}
	if len(m.Definitions) == 0 {
		m.Definitions, err = manifests.Definitions(l.cfg.Project.Dir)
		withoutConversion(m.Definitions) // no Service is deployed with them
	}
	return m, err
}

// report sends what the operator needs to the channel missing.
func (d *deployment) report(n need) {
	if n == (need{}) {
		return
	}
	select {
	case d.missing <- n:
	default: // the operator will report it again
	}
}

// needs returns the channel missing; nil if d is nil.
func (d *deployment) needs() <-chan need {
	if d == nil {
		return nil
	}
	return d.missing
}

// release deletes the leases of an operator that has ended, so that the next one leads immediately.
func (d *deployment) release(l *Loop) {
	host, err := os.Hostname()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	leases, err := client.List[coordinationv1.Lease](ctx, l.cfg.Client, client.InNamespace(d.namespace))
	if err != nil {
		return // the operator waits until they expire
	}
	for _, lease := range leases {
		if holder := lease.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, host+"_") {
			_ = l.cfg.Client.Delete(ctx, lease)
		}
	}
}

// definitions reads what the project deploys and applies the definitions.
func (d *deployment) definitions(ctx context.Context, l *Loop) error {
	current, err := d.read(l)
	if err != nil {
		return err
	}
	d.current = current
	if err := l.apply(ctx, current.Definitions); err != nil {
		return err
	}
	_, rest := d.split()
	return l.apply(ctx, d.served(ctx, l, rest))
}

// split separates the webhook configurations from the other objects.
func (d *deployment) split() (hooks, rest manifests.Objects) {
	for _, obj := range d.current.Objects {
		if strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			hooks = append(hooks, obj)
		} else {
			rest = append(rest, obj)
		}
	}
	return hooks, rest
}

// served returns the objects whose kinds the cluster serves, and logs the other kinds.
func (d *deployment) served(ctx context.Context, l *Loop, objects manifests.Objects) (served manifests.Objects) {
	for _, obj := range objects {
		kind := obj.GroupVersionKind()
		if _, err := l.cfg.Client.Mapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			if name := kind.String(); !d.skipped[name] {
				d.skipped[name] = true
				l.cfg.Log.Printf("manifests", "not applied: %s", l.unserved(ctx, kind))
			}
			continue
		}
		served = append(served, obj)
	}
	return served
}

// restart runs a new pod of the operator, if there is a new program, and waits until it is ready.
// Webhooks are registered after the pod exists, since they can concern pods.
func (d *deployment) restart(ctx context.Context, l *Loop, binary string) error {
	if binary != "" {
		if err := d.node.Install(binary, l.cfg.Project.Dir, d.current.Files); err != nil {
			return err
		}
		d.starts++
	}
	if err := d.start(ctx, l); err != nil {
		return err
	}
	hooks, _ := d.split()
	if err := l.apply(ctx, hooks); err != nil {
		return err
	}
	return d.ready(ctx, l)
}

// start applies the Deployment. A changed number of starts makes it replace its pod.
func (d *deployment) start(ctx context.Context, l *Loop) error {
	manager := d.current.Manager.DeepCopy()
	template := &manager.Spec.Template
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[startAnnotation] = strconv.Itoa(d.starts)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(manager)
	if err != nil {
		return err
	}
	delete(fields, "status")
	return l.apply(ctx, manifests.Objects{{Object: fields}})
}

// ready waits until the operator's pod is ready. It supplies what the project does not deploy.
// If the pod does not become ready in time, it only logs that.
func (d *deployment) ready(ctx context.Context, l *Loop) error {
	begin := time.Now()
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	key := client.Key{Namespace: d.current.Manager.Namespace, Name: d.current.Manager.Name}
	for {
		running, err := client.Get[appsv1.Deployment](ctx, l.cfg.Client, key)
		if err == nil && running.Status.ObservedGeneration == running.Generation &&
			running.Status.UpdatedReplicas == 1 && running.Status.ReadyReplicas == 1 {
			l.cfg.Log.Printf(l.subject(), "ready in %s, as %s/%s", time.Since(begin).Round(time.Millisecond),
				key.Namespace, key.Name)
			return nil
		}
		select {
		case n := <-d.missing:
			if err := d.supply(ctx, l, n); err != nil {
				return err
			}
		case <-timeout.C:
			l.cfg.Log.Printf(l.subject(), "not ready after %s", readyTimeout)
			if !d.hinted {
				d.hinted = true
				l.hint(ctx, &d.current.Manager.Spec.Template.Spec, key.Namespace, d.current.Objects)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond): // the server is in this process
		}
	}
}

// supply gives the operator what it needs, and restarts it.
func (d *deployment) supply(ctx context.Context, l *Loop, n need) error {
	if n.folder != "" {
		return d.certify(ctx, l, n.folder)
	}
	return d.install(ctx, l, n.group)
}

// certify gives the operator a certificate for its webhooks, and restarts it. If its Deployment
// has a volume for the certificate, it only logs the next step.
func (d *deployment) certify(ctx context.Context, l *Loop, folder string) error {
	if d.certified {
		return nil // an error of the former pod
	}
	d.certified = true
	const enable = "enable ../webhook and ../certmanager, with their patches, in its kustomization.yaml"
	if !d.source.Certify(d.current, folder) {
		l.cfg.Log.Printf("webhooks", "config/default mounts no certificate in %s for the webhooks that the operator serves: "+
			"%s, or set ENABLE_WEBHOOKS=false for kelson dev", folder, enable)
		return nil
	}
	var err error
	if d.current, err = d.read(l); err != nil {
		return err
	}
	hooks, rest := d.split()
	called := "the cluster calls them with a certificate of this run"
	if len(hooks) == 0 {
		called = "it has a certificate of this run, and the cluster does not call them"
	}
	l.cfg.Log.Printf("webhooks", "config/default deploys no certificate for the webhooks that the operator serves: "+
		"%s; to deploy one, %s", called, enable)
	d.starts++
	return errors.Join(l.apply(ctx, d.current.Definitions), l.apply(ctx, d.served(ctx, l, rest)), d.start(ctx, l),
		l.apply(ctx, hooks))
}

// install finds and applies the definitions of an API group that the cluster lacks, and restarts
// the operator.
func (d *deployment) install(ctx context.Context, l *Loop, group string) error {
	found, err := d.find(ctx, l, group)
	if err != nil || !found {
		return err
	}
	d.starts++
	return d.start(ctx, l)
}

// find applies the definitions of an API group of a dependency. It looks for each group once.
func (d *deployment) find(ctx context.Context, l *Loop, group string) (bool, error) {
	if d.looked[group] || d.current.Defines(group) {
		return false, nil
	}
	d.looked[group] = true
	definitions, source, err := d.dependencies.Find(ctx, group)
	if err != nil {
		l.fail("manifests", err)
		return false, nil
	}
	if len(definitions) == 0 {
		l.cfg.Log.Printf("manifests", "the operator needs %s, which no module that it imports defines: pass --definitions", group)
		return false, nil
	}
	if err := l.apply(ctx, definitions); err != nil {
		return false, err
	}
	l.cfg.Log.Printf("manifests", "installed %d definitions of %s, which the operator uses, from %s", len(definitions),
		group, source)
	return true, nil
}

// samples applies the samples. It retries while their webhooks do not answer, and logs those that
// are rejected: a project's samples need not all be valid.
func (d *deployment) samples(ctx context.Context, l *Loop, all manifests.Objects) error {
	installed := false
	for _, obj := range all {
		kind := obj.GroupVersionKind()
		if _, err := l.cfg.Client.Mapper().RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) ||
			kind.Group == "" {
			continue
		}
		found, err := d.find(ctx, l, kind.Group)
		if err != nil {
			return err
		}
		installed = installed || found
	}
	if installed {
		d.starts++
		if err := errors.Join(d.start(ctx, l), d.ready(ctx, l)); err != nil {
			return err
		}
	}
	if err := d.namespaces(ctx, l, all); err != nil {
		return err
	}
	deadline := time.Now().Add(readyTimeout)
	for {
		err := l.apply(ctx, d.served(ctx, l, all))
		if err == nil {
			return nil
		}
		if !unanswered(err) || time.Now().After(deadline) {
			l.failSamples(err)
			return nil
		}
		select {
		case n := <-d.missing: // for example the certificate of the webhooks
			if err := d.supply(ctx, l, n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond): // the server of the webhooks is another process
		}
	}
}

// namespaces creates the namespaces of samples.
func (d *deployment) namespaces(ctx context.Context, l *Loop, samples manifests.Objects) error {
	for _, sample := range samples {
		name := sample.GetNamespace()
		if name == "" {
			continue
		}
		if _, err := client.Get[corev1.Namespace](ctx, l.cfg.Client,
			client.Key{Name: name}); !apierrors.IsNotFound(err) {
			continue
		}
		obj := &corev1.Namespace{}
		obj.Name = name
		if err := l.cfg.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the namespace of the sample %s: %w", sample.GetName(), err)
		}
		l.cfg.Log.Printf("samples", "created the namespace %s of %s", name, sample.GetName())
	}
	return nil
}

// unanswered reports whether an object was rejected because a webhook did not answer.
func unanswered(err error) bool {
	text := err.Error()
	return strings.Contains(text, "failed calling webhook") || strings.Contains(text, "conversion webhook") ||
		apierrors.IsServiceUnavailable(err)
}

// watchedOutput calls each for every line.
type watchedOutput struct {
	io.WriteCloser
	each func(line string)
	rest []byte
}

// Write implements io.Writer.
func (w *watchedOutput) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, after, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			break
		}
		w.each(string(line))
		w.rest = after
	}
	return w.WriteCloser.Write(p)
}
