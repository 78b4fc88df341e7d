package explore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// What needs no operator is checked without one.
func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		dir  string
		want string
	}{
		"right": {project(t, ""), ""},
		"a refused sample": {projectWith(t, "", "config/samples/shop.yaml",
			"{apiVersion: example.com/v1, kind: Shop, metadata: {name: A_}}"),
			`input "create Shop A_": Shop.example.com "A_" is invalid`},
		"the next step": {projectWith(t, "", "config/samples/shop.yaml",
			"{apiVersion: example.com/v1, kind: Shop, metadata: {name: A_}}"),
			"; correct the object, or set inputs in explore.yaml"},
		"an unknown kind": {projectWith(t, "", "config/samples/z.yaml",
			"{apiVersion: example.com/v1, kind: Shoe, metadata: {name: a}}"),
			"config/crd/bases: generate them, name others in definitions in explore.yaml, or correct the object"},
		"an unknown simulated": {project(t, "simulate: [{kind: Certificate, status: {a: b}}]"),
			`serves no kind "Certificate"`},
		"a wrong definition": {projectWith(t, "", "config/crd/bases/z.yaml",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {}}"),
			"is invalid"},
	} {
		s, err := explore.Project(test.dir, nil)
		if err == nil {
			err = explore.Check(t.Context(), s)
		}
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Objects for which no webhook is called are also checked if the operator has webhooks. Whether the
// others are right depends on the operator.
func TestCheckWithWebhooks(t *testing.T) {
	const hooked = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {hook: A_}}, data: {a: b}}"
	for sample, want := range map[string]string{
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: A_}}": `input "create Shop A_": Shop.example.com "A_" is invalid`,
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: c}}":  "",
	} {
		dir := projectWith(t, "", "config/samples/a.yaml", hooked)
		write(t, dir, "config/samples/b.yaml", sample)
		write(t, dir, "config/webhook/manifests.yaml", hookConfiguration)
		s, err := explore.Project(dir, nil)
		if err == nil {
			err = explore.Check(t.Context(), s)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Of a folder with two versions of a role, the operator has that which the kustomization lists. A
// namespace that no manifest creates exists before the samples.
func TestCheckAsDeployed(t *testing.T) {
	dir := projectWith(t, "", "config/samples/shop.yaml",
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: a, namespace: tea}}")
	write(t, dir, "config/rbac/account.yaml", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: a}}")
	for _, name := range []string{"role", "former"} {
		write(t, dir, "config/rbac/"+name+".yaml",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: []}")
	}
	check := func() error {
		s, err := explore.Project(dir, nil)
		if err == nil {
			err = explore.Check(t.Context(), s)
		}
		return err
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), `"a" already exists`) {
		t.Errorf("without a kustomization: %v, want that the role exists", err)
	}
	write(t, dir, "config/rbac/kustomization.yaml", "resources: [account.yaml, role.yaml]")
	assert.NoErrorf(t, check(), "the kustomization lists one role")
	write(t, dir, "config/rbac/kustomization.yaml", "resources: [account.yaml, other.yaml]")
	if err := check(); err == nil || !strings.Contains(err.Error(), "other.yaml: no such file") {
		t.Errorf("the kustomization lists a file that does not exist: %v", err)
	}
}

// The conversion of a definition is read from patches for kustomize, also from those with the
// fields of v1beta1. JSON patches beside them, which are lists, are skipped.
func TestPatchesOfDefinitions(t *testing.T) {
	const version = "{name: %, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}"
	definition := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: stalls.example.com}, spec: {group: example.com, scope: Namespaced, " +
		"names: {kind: Stall, plural: stalls}, versions: [" + strings.NewReplacer("%", "v1", "storage: false",
		"storage: true").Replace(version) + ", " +
		strings.Replace(version, "%", "v2", 1) + "]}}"
	for name, test := range map[string]struct{ patch, want string }{
		"v1beta1": {"{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: stalls.example.com}, spec: {conversion: {strategy: Webhook, " +
			"webhookClientConfig: {service: {namespace: system, name: webhook-service, path: /convert}}}}}", ""},
		"a list":           {"- {op: remove, path: /spec/names/shortNames}", ""},
		"not a conversion": {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: shops.example.com, annotations: {a: b}}}", ""},
		"a wrong strategy": {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: stalls.example.com}, spec: {conversion: {strategy: Some}}}",
			`Unsupported value: "Some"`},
		"not YAML": {"{", "patches of definitions: patch.yaml: "},
	} {
		dir := projectWith(t, "", "config/crd/bases/stalls.yaml", definition)
		write(t, dir, "config/crd/patches/patch.yaml", test.patch)
		s, err := explore.Project(dir, nil)
		if err == nil {
			err = explore.Check(t.Context(), s)
		}
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func projectWith(t *testing.T, config, file, content string) string {
	t.Helper()
	dir := project(t, config)
	write(t, dir, file, content)
	return dir
}

// With Options.Check, an exploration makes only the runs without faults, and counts the plans.
func TestCheckedOnly(t *testing.T) {
	report, err := explore.Explore(t, twoSecretsScenario(false), explore.Options{For: time.Hour, Check: true})
	if err != nil || report.Plans != 0 || report.OneFault == 0 || len(report.Alarms) > 0 ||
		!strings.HasPrefix(report.Summary(), "checked: 8 points, ") {
		t.Errorf("%v, %s", err, report.Summary())
	}
}

// With Options.Kinds, only these kinds of faults are tried.
func TestKinds(t *testing.T) {
	report, err := explore.Explore(t, twoSecretsScenario(false), explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.KillAfter}})
	if err != nil || report.Plans != 2 || report.OneFault-report.Skipped != 2 || len(report.Alarms) != 1 ||
		len(report.NotTried) > 0 {
		t.Errorf("%v, %s, want a plan for each of two writes", err, report.Summary())
	}
}

// A report counts the plans with a single fault that did not run, and only these.
func TestPlansLeft(t *testing.T) {
	for _, test := range []struct {
		options explore.Options
		left    int // of the plans with one fault
	}{
		{explore.Options{Kinds: []explore.Kind{explore.KillAfter}, OneFault: true}, 0},
		{explore.Options{Kinds: []explore.Kind{explore.KillAfter}, OneFault: true, Plans: 1}, 1},
		// Three of these plans have several faults.
		{explore.Options{Kinds: []explore.Kind{explore.KillAfter}, Plans: 5}, 0},
	} {
		test.options.For = time.Hour
		report, err := explore.Explore(t, twoSecretsScenario(false), test.options)
		if err != nil || report.Left != test.left ||
			strings.Contains(report.Summary(), "not run because the time was over") != (test.left > 0) {
			t.Errorf("%+v: %v, %d plans left, want %d: %s", test.options, err, report.Left, test.left,
				report.Summary())
		}
	}
}

// Alarms about the same objects and fields have the same cause; others have another one.
func TestCauses(t *testing.T) {
	s := eachConfigMap(nil)
	s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			for _, suffix := range []string{"-a", "-b", "-c"} {
				owner := []metav1.OwnerReference{*metav1.NewControllerRef(cm,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
				if err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace,
					Name: cm.Name + suffix, OwnerReferences: owner}}); err != nil {
					return operator.Result{}, nil // the bug: it gives up
				}
			}
			return operator.Result{}, nil
		}}
	}, operator.Owns[corev1.Secret]()))
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.KillAfter, explore.Lose, explore.Internal}})
	require.NoError(t, err)
	first, same := 0, 0
	for _, a := range report.Alarms {
		if a.SameAs == nil {
			first++
		} else {
			same++
		}
	}
	if first == 0 || same == 0 || report.Causes() != first || !strings.Contains(report.Summary(), "probably of ") {
		t.Errorf("%d causes and %d other alarms\n%s\n%v", first, same, report.Summary(), report.Alarms)
	}
}

// The status of a ConfigMap stays Running after a crash, and becomes Failed after an error. These
// are two bugs, although the same field is wrong, and each of them has several alarms.
func TestCausesOfOneField(t *testing.T) {
	s := eachConfigMap(nil)
	s.Operator = func(ctx context.Context, config *rest.Config) error {
		mine := false // in the memory of the process
		return explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
				state := func(value string) error {
					cm = cm.DeepCopy()
					cm.Labels = map[string]string{"state": value}
					return c.Update(ctx, cm)
				}
				if cm.Name != "web" || cm.DeletionTimestamp != nil || cm.Labels["state"] != "" && !mine {
					return operator.Result{}, nil // the first bug: nothing continues
				}
				if cm.Labels["state"] == "" {
					mine = true
					return operator.Result{RequeueAfter: time.Second}, state("Running")
				}
				end := "Done"
				if createSecret(ctx, c, cm, "-key", "a") != nil {
					end = "Failed" // the second bug
				}
				err := state(end)
				mine = err != nil
				return operator.Result{}, err
			}}
		}))(ctx, config)
	}
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.KillAfter, explore.KillBefore, explore.Lose, explore.Internal, explore.Deny}})
	require.NoError(t, err)
	causes := map[string]map[string]bool{}
	for _, a := range report.Alarms {
		first := a.Plan.String()
		if a.SameAs != nil {
			first = a.SameAs.String()
		}
		if causes[first] == nil {
			causes[first] = map[string]bool{}
		}
		for _, value := range []string{"Running", "Failed"} {
			if strings.Contains(a.Detail, `"`+value+`"`) {
				causes[first][value] = true
			}
		}
	}
	for plan, values := range causes {
		assert.Equalf(t, len(values), 1, "%s: the cause has alarms about %v", plan, values)
	}
	if len(causes) != 2 || len(report.Alarms) < 3 {
		t.Errorf("%d causes of %d alarms, want 2 of at least 3: %v", len(causes), len(report.Alarms), report.Alarms)
	}
}
