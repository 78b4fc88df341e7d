package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store/archive"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/plan"
	"kelson.dev/lab/planned"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

const (
	password = "correct horse battery staple"
	tenant   = "shop"
)

// apps reconciles ConfigMaps that have the label app: each gets a Deployment, and an annotation
// with the password when it runs.
type apps struct {
	operator.Client
	image string
}

func (r *apps) Reconcile(ctx context.Context, app *corev1.ConfigMap) (operator.Result, error) {
	if app.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	labels := map[string]string{"app": app.Name}
	deployment, err := operator.Apply(ctx, r.Client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: r.image}}},
			},
		},
	})
	if err != nil || deployment.Status.ReadyReplicas == 0 {
		return operator.Result{}, err
	}
	secret := &corev1.Secret{}
	if err := r.Get(ctx, operator.Key{Namespace: app.Namespace, Name: "password"}, secret); err != nil {
		return operator.Result{}, err
	}
	const note = "note"
	text := "ready with " + string(secret.Data["password"])
	if app.Annotations[note] == text {
		return operator.Result{}, nil
	}
	app = app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, note, text)
	return operator.Result{}, r.Update(ctx, app)
}

// run runs the operator with an image, with its trace.
func run(image string) func(context.Context, plan.Target) error {
	return func(ctx context.Context, to plan.Target) error {
		cfg := operator.Config{REST: to.Config, Trace: trace.Func(func(r trace.Record) {
			to.Reconciled(trace.Line(r))
		})}
		return operator.Run(ctx, cfg, parts(image)...)
	}
}

func parts(image string) []operator.Part {
	return []operator.Part{operator.Name("apps"), operator.For(func(c operator.Client) *apps {
		return &apps{c, image}
	}, operator.Owns[appsv1.Deployment]())}
}

func app(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name,
		Labels: map[string]string{"app": "yes"}}}
}

// cluster returns a cluster with a Secret, and a webhook for Deployments that does not answer.
func cluster(t testing.TB, opts ...testenv.Option) *testenv.Env {
	t.Helper()
	env := testenv.New(t, append([]testenv.Option{testenv.Nodes(controlplane.Simulated{}), testenv.Workloads()},
		opts...)...)
	// Without this, the copy has a node on which no pods can be scheduled.
	env.Eventually(t, time.Minute, func() bool {
		nodes, err := client.List[corev1.Node](t.Context(), env.Client())
		return err == nil && len(nodes) == 1 && len(nodes[0].Spec.Taints) == 0
	})
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	path := "/check"
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "password"},
		Data: map[string][]byte{"password": []byte(password)}})
	env.Create(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "checks"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deployments.example.com", FailurePolicy: &fail, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "hooks", Name: "hook", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"},
					Resources: []string{"deployments"}},
			}},
		}},
	})
	return env
}

func read(t testing.TB, config *rest.Config) *plan.State {
	t.Helper()
	state, err := plan.Cluster(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { state.Close() })
	return state
}

func planOf(t testing.TB, state *plan.State, cfg plan.Config) *plan.Plan {
	t.Helper()
	if cfg.Quiet == 0 {
		cfg.Quiet = time.Second
	}
	p, err := plan.Run(t.Context(), state, cfg)
	must(t, err)
	return p
}

// texts returns a plan in all its formats.
func texts(t *testing.T, p *plan.Plan) (text, all string) {
	t.Helper()
	var b, rest bytes.Buffer
	must(t, errors.Join(p.Text(&b, plan.TextOptions{}), p.Text(&rest, plan.TextOptions{All: true}),
		p.Markdown(&rest)))
	data, err := json.Marshal(p)
	must(t, err)
	return b.String(), b.String() + rest.String() + string(data)
}

func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// The plan has the operator's writes in order, with their causes and effects. The cluster does not
// change, and values of Secrets do not appear.
func TestPlan(t *testing.T) {
	env := cluster(t)
	env.Create(t, app("web"))
	state := read(t, env.RESTConfig())
	before := env.Plane().Store().Snapshot().Revision()
	p := planOf(t, state, plan.Config{Operator: run("example.com/app:v1")})
	assert.Equalf(t, env.Plane().Store().Snapshot().Revision(), before, "the cluster has changed: revision")
	if len(p.Steps) != 2 || len(p.Refused) > 0 || p.Incomplete != "" {
		t.Fatalf("got %+v", p)
	}
	create, ready := p.Steps[0], p.Steps[1]
	deployment := plan.Ref{Group: "apps", Kind: "Deployment", Resource: "deployments", Namespace: tenant, Name: "web"}
	if w := create.Writes[0]; len(create.Writes) != 1 || w.Verb != planned.Create || w.Object != deployment ||
		!slices.Equal(w.Webhooks, []string{"checks/deployments.example.com"}) || create.Simulated != "" {
		t.Errorf("step 1: %+v", create)
	}
	if len(create.Because) != 1 || create.Because[0].Text != "ConfigMap shop/web existed when the operator started" {
		t.Errorf("causes of step 1: %+v", create.Because)
	}
	kinds := map[string]bool{}
	for _, led := range create.Writes[0].Effects {
		kinds[led.Verb+" "+led.Object.Kind] = true
	}
	if !kinds["create ReplicaSet"] || !kinds["create Pod"] {
		t.Errorf("step 1 leads to %+v", create.Writes[0].Effects)
	}
	if w := ready.Writes[0]; w.Verb != planned.Update || len(w.Changes) != 1 || ready.Simulated == "" {
		t.Errorf("step 2: %+v", ready)
	}
	if len(ready.Because) == 0 || ready.Because[0].Text != "Deployment shop/web was changed by Kubernetes" {
		t.Errorf("causes of step 2: %+v", ready.Because)
	}
	text, all := texts(t, p)
	if strings.Contains(all, password) || strings.Contains(all, "battery") {
		t.Errorf("the plan has a value of a Secret:\n%s", all)
	}
	wantContains(t, text, "1. controller configmap reconciles configmaps/shop/web\n   because ConfigMap shop/web existed when the operator started\n   + create deployments.apps/shop/web\n",
		`.spec.template.spec.containers[app].image: "example.com/app:v1"`,
		"then Kubernetes: create ReplicaSet shop/web-", "webhooks not called: checks/deployments.example.com",
		`"ready with (hidden)"`, "simulated: after the simulated start of pod shop/web-",
		"1 to create, 1 to update, 0 to delete")
	wantContains(t, all, "### Plan: 1 to create", "```diff\n# because ConfigMap shop/web existed",
		"+ create deployments.apps/shop/web\n")

	// a cluster in which the operator has done its work
	stop := testenv.New(t, testenv.Nodes(controlplane.Simulated{}), testenv.Workloads(),
		testenv.Operator(parts("example.com/app:v1")...))
	stop.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	stop.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "password"},
		Data: map[string][]byte{"password": []byte(password)}})
	done := app("web")
	stop.Create(t, done)
	stop.Eventually(t, time.Minute, func() bool {
		stop.Get(t, done)
		return done.Annotations["note"] != ""
	})
	p = planOf(t, read(t, stop.RESTConfig()), plan.Config{Operator: run("example.com/app:v1")})
	if !p.Empty() {
		text, _ := texts(t, p)
		t.Errorf("the operator has done its work, and would do it again:\n%s", text)
	}

	// Another version of it would change the Deployment, and nothing else.
	state = read(t, stop.RESTConfig())
	old := planOf(t, state, plan.Config{Operator: run("example.com/app:v1")})
	p = planOf(t, state, plan.Config{Operator: run("example.com/app:v2")})
	must(t, p.Compare(old, "v1"))
	if len(p.Differences) != 1 || p.Differences[0].Object != deployment || len(p.Differences[0].Steps) != 1 ||
		p.Empty() {
		t.Errorf("differences: %+v", p.Differences)
	}
	text, _ = texts(t, p)
	wantContains(t, text, "~ deployments.apps/shop/web\n",
		`.spec.template.spec.containers[app].image: "example.com/app:v1" → "example.com/app:v2"`,
		"1 object would be different than with v1")
	again := planOf(t, state, plan.Config{Operator: run("example.com/app:v2")})
	if err := again.Compare(p, "v2"); err != nil || !again.Empty() {
		text, _ := texts(t, again)
		t.Errorf("two runs of the same version differ: %v\n%s", err, text)
	}
}

// If an operator does not record its reconciles, the plan infers the causes, and marks them as
// probable.
func TestPlanWithoutTrace(t *testing.T) {
	env := cluster(t)
	env.Create(t, app("web"))
	p := planOf(t, read(t, env.RESTConfig()), plan.Config{Operator: func(ctx context.Context, to plan.Target) error {
		return operator.Run(ctx, operator.Config{REST: to.Config}, parts("example.com/app:v1")...)
	}})
	if len(p.Steps) != 2 || !p.Steps[0].Because[0].Probably || p.Steps[1].Simulated == "" {
		t.Fatalf("got %+v", p.Steps)
	}
	text, _ := texts(t, p)
	wantContains(t, text, "probably because ConfigMap shop/web existed when the operator started",
		"probably because Deployment shop/web was changed by Kubernetes")
}

// The operator has the rights of its own roles, and requests that they do not allow are part of
// the plan.
func TestPlanRights(t *testing.T) {
	env := cluster(t)
	env.Create(t, app("web"))
	env.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "apps"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"},
			Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch"}},
	}})
	env.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "apps"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "apps"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: tenant, Name: "apps"}}})
	p := planOf(t, read(t, env.RESTConfig()), plan.Config{Operator: run("example.com/app:v1"),
		User: "system:serviceaccount:shop:apps"})
	if len(p.Refused) != 1 || p.Refused[0].Verb != "create" || p.Refused[0].Object.Resource != "deployments" ||
		p.Empty() {
		t.Errorf("refused: %+v", p.Refused)
	}
	text, _ := texts(t, p)
	wantContains(t, text, "refused: create deployments.apps in namespace shop: ")
	if len(p.Steps) != 1 || p.Steps[0].Error == "" {
		t.Errorf("steps: %+v", p.Steps)
	}
}

// Reading a state needs only the verbs get and list. Its notes list the kinds that could not be
// read. Dependents of owners that it could not read stay.
func TestReadOnly(t *testing.T) {
	env := cluster(t)
	owner := &corev1.Secret{}
	owner.Namespace, owner.Name = tenant, "password"
	env.Get(t, owner)
	dependent := app("dependent")
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name,
		UID: owner.UID}}
	env.Create(t, dependent)
	all := []rbacv1.PolicyRule{}
	for _, group := range env.Plane().Registry().Current().All() {
		if group.Plural != "secrets" {
			all = append(all, rbacv1.PolicyRule{APIGroups: []string{group.Group}, Resources: []string{group.Plural},
				Verbs: []string{"get", "list"}})
		}
	}
	env.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: all})
	env.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}})
	config := env.RESTConfig()
	config.Impersonate.UserName = "reader"
	state := read(t, config)
	if notes := state.Notes(); len(notes) != 1 ||
		!strings.Contains(notes[0], "secrets are not in the plan: secrets is forbidden") {
		t.Errorf("notes: %q", notes)
	}
	p := planOf(t, state, plan.Config{Operator: func(ctx context.Context, to plan.Target) error {
		c, err := client.New(client.Config{REST: to.Config})
		if err != nil {
			return err
		}
		if err := c.Get(ctx, client.KeyOf(dependent), &corev1.ConfigMap{}); err != nil {
			return fmt.Errorf("the dependent: %w", err)
		}
		if err := c.Get(ctx, client.KeyOf(owner), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the owner: %w, want not found", err)
		}
		<-ctx.Done()
		return nil
	}})
	if !p.Empty() {
		t.Errorf("got %+v", p)
	}
}

// A state can come from a backup. The plan shows the deletions of dependents below those of their
// owners.
func TestBackup(t *testing.T) {
	env := cluster(t)
	owner, dependent := app("owner"), app("dependent")
	env.Create(t, owner)
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name,
		UID: owner.UID}}
	env.Create(t, dependent)
	var backup bytes.Buffer
	sn := env.Plane().Store().Snapshot()
	must(t, archive.Write(t.Context(), &backup, sn.Revision(), sn.Records()))
	state, err := plan.Backup(&backup, "test.backup")
	must(t, err)
	defer state.Close()
	p := planOf(t, state, plan.Config{Operator: func(ctx context.Context, to plan.Target) error {
		c, err := client.New(client.Config{REST: to.Config})
		if err != nil {
			return err
		}
		if err := c.Delete(ctx, owner.DeepCopy()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}})
	if len(p.Steps) != 1 || p.Steps[0].Writes[0].Verb != planned.Delete || len(p.Steps[0].Writes[0].Effects) != 1 {
		t.Fatalf("got %+v", p.Steps)
	}
	text, _ := texts(t, p)
	wantContains(t, text, "plan on a copy of test.backup",
		"- delete configmaps/shop/owner\n       then Kubernetes: delete ConfigMap shop/dependent\n", "1 to delete")

	_, err = plan.Run(t.Context(), state, plan.Config{Operator: func(context.Context, plan.Target) error {
		return http.ErrServerClosed
	}})
	if !errors.Is(err, plan.ErrEnded) || !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("an operator that ends: %v", err)
	}
}

// 10,000 objects take at most ten seconds.
func TestLargePlan(t *testing.T) {
	require.Long(t, "takes seconds")
	env := testenv.New(t)
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "password"},
		Data: map[string][]byte{"password": []byte(password)}})
	for i := range 10_000 {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: fmt.Sprintf("c%05d", i)},
			Data: map[string]string{"value": strings.Repeat("x", 500)}}
		if i < 100 {
			obj.Labels = map[string]string{"app": "yes"}
		}
		env.Create(t, obj)
	}
	begin := time.Now()
	state := read(t, env.RESTConfig())
	took := time.Since(begin)
	p := planOf(t, state, plan.Config{Operator: run("example.com/app:v1"), Quiet: plan.DefaultQuiet})
	text, _ := texts(t, p)
	t.Logf("read in %v, all in %v", took, time.Since(begin))
	if len(p.Steps) != 200 || state.Len() < 10_000 {
		t.Errorf("%d steps on %d objects", len(p.Steps), state.Len())
	}
	wantContains(t, text, "and 99 steps like it: configmaps/shop/c0", "100 to create, 100 to update")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %v; want at most 10s on a quiet machine", took)
	}
}

// An operator with only webhooks sends no request.
func TestSilentOperator(t *testing.T) {
	env := cluster(t)
	p := planOf(t, read(t, env.RESTConfig()), plan.Config{Quiet: 20 * time.Millisecond,
		Operator: func(ctx context.Context, _ plan.Target) error {
			<-ctx.Done()
			return nil
		}})
	if len(p.Steps) > 0 || p.Incomplete != "" ||
		!slices.Contains(p.Notes, "the operator sent no request within 300ms") {
		t.Errorf("got %+v", p)
	}
}
