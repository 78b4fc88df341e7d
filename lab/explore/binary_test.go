package explore_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// operatorVariable is the environment variable that makes the test program run as an operator, in a
// process of its own, for the tests of Binary.
const operatorVariable = "KELSON_EXPLORE_TEST_OPERATOR"

// programs are the operators by their names.
var programs = map[string]func(context.Context, *rest.Config) error{
	"faulty":  twoSecretsScenario(false).Operator,
	"correct": twoSecretsScenario(true).Operator,
	"exits":   func(context.Context, *rest.Config) error { return fmt.Errorf("flag --size is required") },
	"panics":  func(context.Context, *rest.Config) error { panic("no size") },
	"fails": func(ctx context.Context, config *rest.Config) error {
		return run(ctx, config, createsKey(false)...)
	},
	"pods":       func(ctx context.Context, config *rest.Config) error { return run(ctx, config, keepsPod()...) },
	"hooked":     func(ctx context.Context, config *rest.Config) error { return run(ctx, config, hookedParts()...) },
	"configured": configured,
	"silent":     func(ctx context.Context, _ *rest.Config) error { <-ctx.Done(); return nil },
	"restless": eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
		error) {
		time.Sleep(5 * time.Millisecond) // slower than a hot loop
		cm.Data = map[string]string{"at": time.Now().String()}
		return operator.Result{RequeueAfter: 20 * time.Millisecond}, c.Update(ctx, cm)
	}).Operator,
}

// run runs an operator as operator.Main does.
func run(ctx context.Context, config *rest.Config, parts ...operator.Part) error {
	return runWith(ctx, config, os.Getenv("TMPDIR")+"/k8s-webhook-server/serving-certs", parts...)
}

func runWith(ctx context.Context, config *rest.Config, certificates string, parts ...operator.Part) error {
	return operator.Run(ctx, operator.Config{REST: config, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		Webhooks: manager.WebhookConfig{CertDir: certificates}}, parts...)
}

// configured is an operator that reads the path of its kubeconfig from the file --config=FILE, and
// that of its certificates from the file and from a variable.
func configured(ctx context.Context, _ *rest.Config) error {
	os.Setenv("KUBECONFIG", "/not/this/one")
	var settings struct{ Kubeconfig, Certificates string }
	data, err := os.ReadFile(strings.TrimPrefix(os.Args[1], "--config="))
	if err == nil {
		err = yaml.UnmarshalStrict(data, &settings)
	}
	if err != nil {
		return err
	}
	if given := os.Getenv("CERTIFICATES_OF_OPERATOR"); given != settings.Certificates ||
		!strings.HasSuffix(os.Args[1], ".yaml") {
		return fmt.Errorf("the variable has %q, the file %s %q", given, os.Args[1], settings.Certificates)
	}
	config, err := clientcmd.BuildConfigFromFlags("", settings.Kubeconfig)
	if err != nil {
		return err
	}
	return runWith(ctx, config, settings.Certificates, hookedParts()...)
}

// keepsPod is an operator that creates a Pod again when it is gone.
func keepsPod() []operator.Part {
	reconcile := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
		return operator.Result{}, ignoreExisting(c.Create(ctx, pod))
	}
	return []operator.Part{operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, reconcile}
	}, operator.Owns[corev1.Pod]())}
}

func TestMain(m *testing.M) {
	run, ok := programs[os.Getenv(operatorVariable)]
	if !ok {
		os.Exit(runTests(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err == nil {
		err = run(ctx, config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runTests runs the tests with a folder for the programs that they share.
func runTests(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "kelson-explore-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(built)
	return m.Run()
}

// binaryScenario is a scenario with one of the programs.
func binaryScenario(t *testing.T, name string) explore.Scenario {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := twoSecretsScenario(true)
	s.Operator = nil
	s.Binary = &explore.Binary{Path: self, Env: []string{operatorVariable + "=" + name}}
	return s
}

// A kill between two creates is found in a program that is not changed; the correct program raises
// no alarm.
func TestBinary(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	const want = "kill-after create secrets default/web-key #1"
	for name, alarms := range map[string]int{"faulty": 1, "correct": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := explore.Explore(t, binaryScenario(t, name),
				explore.Options{For: 10 * time.Minute, OneFault: true, Plans: 40})
			require.NoError(t, err)
			t.Log(report.Summary())
			if alarms == 0 {
				for _, a := range report.Alarms {
					t.Errorf("false alarm: %s\nfaults: %s", a, a.Plan)
				}
				return
			}
			if len(report.Alarms) == 0 {
				t.Fatal("no alarm")
			}
			alarm := report.Alarms[0]
			if alarm.Oracle != "O1" || !strings.Contains(alarm.Detail, "secrets default/web-cert: is missing") {
				t.Errorf("%s\nfaults: %s", alarm, alarm.Plan)
			}
			again, err := explore.ReplayBinary(t.Context(), binaryScenario(t, name), want)
			if err != nil || again == nil || again.Oracle != "O1" {
				t.Errorf("replay of %s: %v, %v", want, again, err)
			}
		})
	}
}

// A program is quiet only when the Pods of Jobs that end by themselves have ended.
func TestJobsOfABinary(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	s := binaryScenario(t, "correct")
	s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
	s.Inputs = append(s.Inputs, explore.Create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "count"},
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}}}}))
	s.Invariants = []explore.Invariant{{Name: "a Job is deleted after its end", Kind: "Job",
		Rule: "object != null || has(oldObject.status.succeeded)"}}
	if alarm, err := explore.ReplayBinary(t.Context(), s, "no faults"); err != nil || alarm != nil {
		t.Errorf("%v, %v", alarm, err)
	}
}

// The value of a logged panic, and where it happened, are found after any other attributes.
func TestLoggedPanic(t *testing.T) {
	shop := `{"controller": "shop", "Shop": {"name":"` + strings.Repeat("a", 300) + `"}, "panic": "nil map", `
	for line, want := range map[string]string{
		"ERROR\tObserved a panic\t" + shop + `"stacktrace": "goroutine 1 [running]:\nlog.it()\n\t/a/log.go:1 +0x1\n` +
			`panic({0x1})\n\t/go/src/runtime/panic.go:2 +0x1\nmain.reconcile()\n\t/shop/main.go:3 +0x1\n"}`: "" +
			"panic: nil map at /shop/main.go:3",
		"ERROR\tObserved a panic\t" + shop + `"a": "b"}`:             "panic: nil map",
		`E0101 runtime.go:79] Observed a panic: "nil map" (nil map)`: `panic: "nil map" (nil map)`,
		`INFO	Observed a panic in reconciler: nil map	{}`:            "panic in reconciler: nil map\t{}",
	} {
		assert.Equalf(t, explore.LoggedPanic(line), want, "%s", line)
	}
}

// The place of the panic that has ended a program is in the operator's code, also if a library has
// raised it again.
func TestPanickedAgain(t *testing.T) {
	const text = `panic: no storage [recovered]
	panic: no storage [recovered, repanicked]

goroutine 7 [running]:
controller.(*Controller).Reconcile.func1()
	/mod/controller.go:116 +0x1
panic({0x1})
	/go/src/runtime/panic.go:884 +0x1
runtime.panicmem()
	/go/src/runtime/panic.go:260 +0x1
main.reconcile()
	/shop/main.go:3 +0x1

goroutine 8 [select]:
panic({0x1})
	/other/main.go:4 +0x1
`
	if got, want := explore.LastPanic(text), "panic: no storage [recovered] at /shop/main.go:3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Errors of reconciles are found in the lines that each version of controller-runtime logs.
func TestReconcileError(t *testing.T) {
	const begin = "2000-01-01T00:00:00Z	"
	for line, want := range map[string]string{
		begin + `ERROR	Reconciler error	{"controller": "shop", "controllerKind": "Shop", "Shop": {"name":"a"}, ` +
			`"namespace": "b", "name": "a", "reconcileID": "1", "error": "no"}`: "shop b/a: no",
		begin + `ERROR	controller-runtime.manager.controller.shop	Reconciler error	{"reconciler group":` +
			` "example.com", "reconciler kind": "Shop", "name": "a", "namespace": "b", "error": "no"}`: "shop b/a: no",
		`{"level":"error","logger":"controller.shop","msg":"Reconciler error","reconciler group":"example.com",` +
			`"reconciler kind":"Shop","name":"a","namespace":"","error":"no","stacktrace":"c"}`: "shop a: no",
		begin + `ERROR	controller-runtime.controller	Reconciler error	{"controller": "shop", ` +
			`"request": "b/a", "error": "no"}`: "shop b/a: no",
		`level=ERROR msg=reconcile controller=shop namespace=b name=a err="no \"x\""`: `shop b/a: no "x"`,
		begin + `INFO	Starting workers	{"controller": "shop", "worker count": 1}`:     "",
		begin + `ERROR	setup	unable to start manager	{"error": "no"}`:                 "",
	} {
		got := ""
		if id, text, ok := explore.ReconcileError(line); ok {
			got = id + ": " + text
		}
		assert.Equalf(t, got, want, "%s", line)
	}
}

// O3: an error that a reconciler of a program always returns after a kill is an alarm.
func TestErrorOfABinaryThatPersists(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	alarm, err := explore.ReplayBinary(t.Context(), binaryScenario(t, "fails"),
		"kill-after create secrets default/web-key #1")
	if err != nil || alarm == nil || alarm.String() == "" || alarm.Oracle != "O3" ||
		!strings.Contains(alarm.Detail, `configmap default/web: secrets "web-key" already exists`) {
		t.Errorf("%v, %v", alarm, err)
	}
}

// The control plane calls the webhooks of a program, also after a kill.
func TestWebhooksOfABinary(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	s := binaryScenario(t, "hooked")
	hooks := hookedScenario(t)
	s.Env, s.Inputs, s.Invariants = hooks.Env, hooks.Inputs, hooks.Invariants
	report, err := explore.ExploreBinary(t.Context(), s,
		explore.Options{For: 10 * time.Minute, OneFault: true, Plans: 20})
	require.NoError(t, err)
	t.Log(report.Summary())
	for _, a := range report.Alarms {
		t.Errorf("false alarm: %s\nfaults: %s\n%s", a, a.Plan, strings.Join(a.Steps, "\n"))
	}
}

// A program gets the paths of its kubeconfig and of its certificates in arguments, variables, and
// files that these name. Files that no process would read are refused.
func TestFilesOfABinary(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	scenario := func(args ...string) explore.Scenario {
		s := binaryScenario(t, "configured")
		hooks := hookedScenario(t)
		s.Env, s.Inputs, s.Invariants = hooks.Env, hooks.Inputs, hooks.Invariants
		s.Binary.Dir = t.TempDir()
		s.Binary.Args, s.Binary.Files = args, []string{"operator.yaml"}
		s.Binary.Env = append(s.Binary.Env, "CERTIFICATES_OF_OPERATOR=$CERTIFICATES")
		file := filepath.Join(s.Binary.Dir, "operator.yaml")
		require.NoError(t, os.WriteFile(file, []byte("{kubeconfig: $KUBECONFIG, certificates: '${CERTIFICATES}'}"),
			0o600))
		return s
	}
	const plan = "kill-after create secrets default/web-key #1"
	if alarm, err := explore.ReplayBinary(t.Context(), scenario("--config=operator.yaml"), plan); err != nil ||
		alarm != nil {
		t.Errorf("%v, %v", alarm, err)
	}
	_, err := explore.ReplayBinary(t.Context(), scenario("--config=other.yaml"), plan)
	want := "files: operator.yaml: no argument and no variable of the operator's environment names this file"
	assert.ErrorContains(t, err, want)
	s := scenario("operator.yaml")
	s.Binary.Files = []string{"missing.yaml"}
	_, err = explore.ReplayBinary(t.Context(), s, plan)
	assert.ErrorContains(t, err, "files: stat ")
	s, err = explore.Project(project(t, "files: [config/explore/other.yaml]"), nil)
	require.NoError(t, err)
	s.Binary = scenario().Binary
	s.Binary.Dir, s.Binary.Files = "", nil
	if _, err := explore.ReplayBinary(t.Context(), s, plan); err == nil ||
		!strings.Contains(err.Error(), "files: stat ") || !strings.Contains(err.Error(), "config/explore/other.yaml") {
		t.Errorf("%v", err)
	}
}

// A program continues after its clock has jumped, and after its Pod has lost its Node.
func TestActionsOnMachinesOfABinary(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	s := binaryScenario(t, "pods")
	s.Env = append(s.Env, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{}))
	node := ""
	s.Invariants = []explore.Invariant{{Name: "find the node", Kind: "Pod",
		Check: func(_ explore.View, c explore.Change) error {
			if name, _, _ := unstructured.NestedString(c.Object.Object, "spec", "nodeName"); name != "" {
				node = name
			}
			return nil
		}}}
	if _, steps := explore.ReplayPlan(t, s, "clock-jump after time 2s #1"); !strings.Contains(strings.Join(steps, "\n"),
		"FAULT clock-jump") {
		t.Errorf("the clock does not jump\n%s", strings.Join(steps, "\n"))
	}
	if node == "" {
		t.Fatal("the Pod has no node")
	}
	alarms, steps := explore.ReplayPlan(t, s, "lose-node after nodes "+node+" #1")
	if text := strings.Join(steps, "\n"); len(alarms) > 0 ||
		!strings.Contains(text, "event: deleted pods default/web") || !strings.Contains(text, "the node comes back") {
		t.Errorf("%v\n%s", alarms, text)
	}
}

// Programs that cannot be explored are refused, with the cause.
func TestRefusedBinaries(t *testing.T) {
	require.Long(t, "takes real time")
	t.Parallel() // it mostly waits
	for name, want := range map[string]string{
		"exits":    "the operator ended (O3): the process ended: exit status 1. The end of its output:\n  flag --size is required",
		"panics":   "the operator panics (O3): panic: no size at ",
		"silent":   "the operator has sent no request to the control plane in 20s: it must read the kubeconfig",
		"restless": "never quiet (O4): after 2s objects still change: MODIFIED configmaps default/web",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := binaryScenario(t, name)
			s.Horizon = 2 * time.Second
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true})
			if text := fmt.Sprint(err, report.Alarms); !strings.Contains(text, want) || report.Plans > 0 {
				t.Errorf("%s after %d plans, want %q and no plan", text, report.Plans, want)
			}
		})
	}
	s := binaryScenario(t, "correct")
	s.Binary.Path = "no-such-operator"
	_, err := explore.Explore(t, s, explore.Options{})
	assert.ErrorContains(t, err, "operator no-such-operator: exec")
	s = binaryScenario(t, "correct")
	s.Inputs = append(s.Inputs, explore.Wait(24*time.Hour))
	_, err = explore.Explore(t, s, explore.Options{})
	assert.ErrorContains(t, err, "take real time")
}
