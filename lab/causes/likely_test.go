package causes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/causes"
)

// logLine builds lines of an audit log.
type logLine struct {
	at                               int // milliseconds
	user, agent, verb, group, plural string
	name, sub                        string
	stage, uri                       string
	request, response                string
	code                             int
}

func auditLog(lines ...logLine) string {
	var out strings.Builder
	start := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	for i, l := range lines {
		if l.stage == "" {
			l.stage = "ResponseComplete"
		}
		if l.code == 0 {
			l.code = 200
		}
		if l.uri == "" {
			l.uri = "/x"
		}
		at := start.Add(time.Duration(l.at) * time.Millisecond)
		body := ""
		if l.request != "" {
			body += `,"requestObject":` + l.request
		}
		if l.response != "" {
			body += `,"responseObject":` + l.response
		}
		fmt.Fprintf(&out, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"%d","stage":%q,"requestURI":%q,"verb":%q,"user":{"username":%q},"userAgent":%q,"sourceIPs":["10.0.0.1"],`+
			`"objectRef":{"resource":%q,"apiGroup":%q,"namespace":"default","name":%q,"subresource":%q},"responseStatus":{"code":%d},"requestReceivedTimestamp":%q,"stageTimestamp":%q%s}`+"\n",
			i, l.stage, l.uri, l.verb, l.user, l.agent, l.plural, l.group, l.name, l.sub, l.code,
			at.Format(metav1.RFC3339Micro), at.Add(time.Millisecond).Format(metav1.RFC3339Micro), body)
	}
	return out.String()
}

const operatorAgent = "manager/v1.2 (linux/amd64)"

func object(kind, name, uid, version, owner string) string {
	owners := ""
	if owner != "" {
		kind, name, _ := strings.Cut(owner, "/")
		owners = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"x/v1","kind":%q,"name":%q,"uid":"uid-%s"}]`, kind,
			name, name)
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q%s}}`, kind, name, uid, version, owners)
}

// shop is a log in which an operator creates a ConfigMap for a Shop, among other writes.
func shop() []logLine {
	watch := logLine{at: 0, user: "system:serviceaccount:shop:manager", agent: operatorAgent, verb: "watch",
		group: "shop.io", plural: "shops", stage: "ResponseStarted"}
	watch2 := watch
	watch2.group, watch2.plural = "", "configmaps"
	return []logLine{
		watch, watch2,
		{at: 1000, user: "ann", agent: "kubectl/v1.37", verb: "create", group: "shop.io", plural: "shops", name: "tea",
			response: object("Shop", "tea", "uid-tea", "10", "")},
		{at: 1002, user: "bob", agent: "kubectl/v1.37", verb: "create", group: "shop.io", plural: "shops", name: "milk",
			response: object("Shop", "milk", "uid-milk", "11", "")},
		{at: 1004, user: "bob", agent: "kubectl/v1.37", verb: "create", plural: "secrets", name: "tea",
			response: object("Secret", "tea", "uid-s", "12", "")},
		{at: 1010, user: watch.user, agent: operatorAgent, verb: "create", plural: "configmaps", name: "tea-config",
			request: `{}`, response: object("ConfigMap", "tea-config", "uid-c", "13", "Shop/tea")},
		{at: 1020, user: watch.user, agent: operatorAgent, verb: "patch", group: "shop.io", plural: "shops",
			name: "tea", sub: "status", response: object("Shop", "tea", "uid-tea", "14", "")},
	}
}

func readLog(t *testing.T, lines []logLine) *causes.Log {
	t.Helper()
	l, err := causes.ReadAuditLog(strings.NewReader(auditLog(lines...)))
	require.NoError(t, err)
	return l
}

func lastStep(t *testing.T, l *causes.Log, kind, name string) *causes.LoggedStep {
	t.Helper()
	found := l.Find(kind, "", name)
	if len(found) != 1 {
		t.Fatalf("%s %s: found %v", kind, name, found)
	}
	steps, _ := l.Explain(found[0], 10)
	return steps[len(steps)-1]
}

// Of several writes that an operator has received, that of the object's owner is the cause. The
// first cause is a person's request.
func TestProbableCause(t *testing.T) {
	l := readLog(t, shop())
	s := lastStep(t, l, "configmaps", "tea-config")
	if s.Probably == nil || s.Probably.Cause.Object().String() != "Shop default/tea" ||
		s.Probably.Cause.First != "a request of ann" {
		t.Fatalf("the ConfigMap: %+v", s.Probably)
	}
	evidence := strings.Join(s.Probably.Evidence, "; ")
	for _, want := range []string{"manager received it: it watches shops.shop.io",
		"Shop default/tea is the owner of ConfigMap default/tea-config"} {
		if !strings.Contains(evidence, want) {
			t.Errorf("evidence %q lacks %q", evidence, want)
		}
	}
	// The operator writes the status because of the same Shop. Its own write of the ConfigMap also
	// fits, but less well.
	status := lastStep(t, l, "shop", "tea")
	if status.Probably == nil || status.Probably.Cause.By.User != "ann" {
		t.Errorf("the status: %+v", status.Probably)
	}
}

// Clients such as the garbage collector ask for the metadata only. The kind remains that of the
// objects.
func TestKindWithMetadataOnly(t *testing.T) {
	partial := strings.Replace(object("PartialObjectMetadata", "tea-config", "uid-config", "15", ""), `"v1"`,
		`"meta.k8s.io/v1"`, 1)
	l := readLog(t, append(shop(), logLine{at: 2000, user: "gc", agent: "kube-controller-manager/v1", verb: "patch",
		plural: "configmaps", name: "tea-config", response: partial}))
	if got := l.Find("configmaps", "", "tea-config"); len(got) != 1 || got[0].Kind != "ConfigMap" {
		t.Errorf("found %v, want a ConfigMap", got)
	}
}

// A write that a program has not received is not a cause.
func TestReactionNeedsReceivedWrite(t *testing.T) {
	lines := shop()
	lines[0].plural = "others" // it does not watch Shops
	if s := lastStep(t, readLog(t, lines), "configmaps", "tea-config"); s.Probably != nil {
		t.Errorf("a write that the operator does not watch: %+v", s.Probably)
	}
	lines = shop()
	lines[0].uri = "/apis/shop.io/v1/shops?fieldSelector=metadata.name%3Dmilk&watch=true"
	if s := lastStep(t, readLog(t, lines), "configmaps", "tea-config"); s.Probably != nil &&
		s.Probably.Cause.Name == "tea" {
		t.Errorf("a write that the field selector excludes: %+v", s.Probably)
	}
	lines = shop()
	lines[2].at = -120_000 // before the minute, and before the watch
	if s := lastStep(t, readLog(t, lines), "configmaps", "tea-config"); s.Probably != nil &&
		s.Probably.Cause.Name == "tea" {
		t.Errorf("a write two minutes before: %+v", s.Probably)
	}
}

// Refused requests, dry runs and Leases do not count as writes.
func TestNoWrites(t *testing.T) {
	lines := shop()
	refused, dry, lease := lines[5], lines[5], lines[5]
	refused.name, refused.code, refused.response = "refused", 403, ""
	dry.name, dry.uri, dry.response = "dry", "/x?dryRun=All", ""
	lease.name, lease.group, lease.plural, lease.response = "lease", "coordination.k8s.io", "leases", ""
	// kubectl delete and drain send dryRun in the body
	deletion, eviction := dry, dry
	deletion.name, deletion.verb, deletion.uri, deletion.request = "deletion", "delete", "",
		`{"kind":"DeleteOptions","dryRun":["All"]}`
	eviction.name, eviction.sub, eviction.uri, eviction.request = "eviction", "eviction", "",
		`{"kind":"Eviction","deleteOptions":{"dryRun":["All"]}}`
	l := readLog(t, append(lines, refused, dry, deletion, eviction, lease))
	for _, name := range []string{"refused", "dry", "deletion", "eviction", "lease"} {
		for _, kind := range []string{"configmap", "leases"} {
			if found := l.Find(kind, "", name); len(found) > 0 {
				t.Errorf("found %v", found)
			}
		}
	}
}

// The cause of a deletion by the garbage collector is the deletion of the owner, although the
// collector deletes and watches as different users. The cause of a Job without an event is its
// CronJob's schedule. A kubelet is a first cause.
func TestKubernetesControllers(t *testing.T) {
	const manager = "kube-controller-manager/v1.37 (linux/amd64)"
	watch := logLine{at: 0, user: "system:kube-controller-manager", agent: manager + "/metadata-informers",
		verb: "watch", group: "shop.io", plural: "shops", stage: "ResponseStarted"}
	jobs := watch
	jobs.group, jobs.plural = "batch", "cronjobs"
	lines := append(shop(),
		watch, jobs,
		logLine{at: 5000, user: "ann", agent: "kubectl/v1.37", verb: "delete", group: "shop.io", plural: "shops",
			name: "tea"},
		logLine{at: 5005, user: "ann", agent: "kubectl/v1.37", verb: "delete", group: "shop.io", plural: "shops",
			name: "milk"},
		logLine{at: 5020, user: "system:serviceaccount:kube-system:generic-garbage-collector",
			agent: manager + "/system:serviceaccount:kube-system:generic-garbage-collector", verb: "delete",
			plural: "configmaps", name: "tea-config"},
		logLine{at: 90_000, user: "system:serviceaccount:kube-system:cronjob-controller", agent: manager + "/cronjobs",
			verb: "create", group: "batch", plural: "jobs", name: "nightly-1",
			response: object("Job", "nightly-1", "uid-j", "20", "CronJob/nightly")},
		logLine{at: 200_000, user: "system:node:one", agent: "kubelet/v1.37", verb: "patch", plural: "nodes",
			name: "one", sub: "status"},
	)
	l := readLog(t, lines)
	s := lastStep(t, l, "configmap", "tea-config")
	if s.Verb != "delete" || s.Probably == nil || s.Probably.Cause.Name != "tea" || s.Probably.Cause.Verb != "delete" ||
		s.Probably.Cause.First != "a request of ann" {
		t.Errorf("the garbage collector: %+v", s.Probably)
	}
	if s := lastStep(t, l, "job", "nightly-1"); s.Probably != nil ||
		s.First != "the schedule of CronJob default/nightly" {
		t.Errorf("the Job: %q, %+v", s.First, s.Probably)
	}
	if s := lastStep(t, l, "nodes", "one"); s.First != "node one" {
		t.Errorf("the kubelet: %q", s.First)
	}
}

// In a log without the contents of objects, the owner of a Pod is not known. What Kubernetes'
// controllers do counts more than a Service of the same name that was created a moment later.
func TestKubernetesControllersWithMetadataOnly(t *testing.T) {
	for _, user := range []string{"system:kube-controller-manager",
		"system:serviceaccount:kube-system:statefulset-controller"} {
		watch := logLine{user: user, agent: "kube-controller-manager/v1.37", verb: "watch", group: "apps",
			plural: "statefulsets", stage: "ResponseStarted"}
		services := watch
		services.group, services.plural = "", "services"
		l := readLog(t, []logLine{watch, services,
			{at: 1000, user: "ann", agent: "kubectl/v1.37", verb: "create", group: "apps", plural: "statefulsets",
				name: "web"},
			{at: 1007, user: "ann", agent: "kubectl/v1.37", verb: "create", plural: "services", name: "web"},
			{at: 1020, user: user, agent: watch.agent, verb: "create", plural: "pods", name: "web-0"},
		})
		s := lastStep(t, l, "pods", "web-0")
		// The StatefulSet was created 20 ms before.
		if s.Probably == nil || s.Probably.Earlier.Duration != 20*time.Millisecond {
			t.Errorf("%s: the Pod: %+v", user, s.Probably)
		}
	}
}

// The deletion of an owner is the cause even if the owner was created again, with the same name and
// another UID, before the garbage collector acted.
func TestOwnerThatIsCreatedAgain(t *testing.T) {
	const collector = "kube-controller-manager/v1.37 (linux/amd64)"
	watch := logLine{at: 0, user: "system:kube-controller-manager", agent: collector, verb: "watch", group: "shop.io",
		plural: "shops", stage: "ResponseStarted"}
	l := readLog(t, append(shop(), watch,
		logLine{at: 5000, user: "ann", agent: "kubectl/v1.37", verb: "delete", group: "shop.io", plural: "shops",
			name: "tea"},
		logLine{at: 5005, user: "bob", agent: "kubectl/v1.37", verb: "create", group: "shop.io", plural: "shops",
			name: "tea", response: object("Shop", "tea", "uid-tea-2", "30", "")},
		logLine{at: 5020, user: watch.user, agent: collector, verb: "delete", plural: "configmaps", name: "tea-config"},
	))
	s := lastStep(t, l, "configmap", "tea-config")
	if s.Probably == nil || s.Probably.Cause.Verb != "delete" || s.Probably.Cause.First != "a request of ann" {
		t.Errorf("the cause of the deletion: %+v", s.Probably)
	}
}

// Answers about writes in a trace stay exact, and chains of the trace continue in the log.
func TestLogWithTrace(t *testing.T) {
	const record = `{"id":1,"run":"a","time":"2030-01-02T15:04:06Z","controller":"shop","kind":"Shop","namespace":"default","name":"tea","causes":[{"event":"add","kind":"Shop","namespace":"default","name":"tea","resourceVersion":"10","manager":"kubectl"}],"writes":[{"verb":"create","kind":"ConfigMap","namespace":"default","name":"tea-config","resourceVersion":"13","changed":true}],"duration":"1ms"}
`
	trace, err := causes.Read(strings.NewReader(record))
	require.NoError(t, err)
	l := readLog(t, shop())
	l.Attach(trace)
	s := lastStep(t, l, "ConfigMap", "tea-config")
	if s.Exact == nil || s.Probably != nil {
		t.Fatalf("the recorded write: %+v", s)
	}
	if logged := s.Exact.By.Because[0].Logged; logged == nil || logged.First != "a request of ann" {
		t.Errorf("the trace does not continue in the log: %+v", logged)
	}
	x := trace.Explain(causes.Object{Kind: "ConfigMap", Namespace: "default", Name: "tea-config"}, 5)
	if len(x.Writes) != 1 || x.Writes[0].By.Because[0].Logged == nil {
		t.Errorf("%+v", x.Writes)
	}
}

func TestMalformedLog(t *testing.T) {
	for _, log := range []string{"no JSON\n", "{}\n"} {
		_, err := causes.ReadAuditLog(strings.NewReader(log))
		assert.ErrorContainsf(t, err, "line 1", "%q", log)
	}
	_, err := causes.ReadAuditLog(strings.NewReader(auditLog(shop()...) + `{"kind":"Ev`))
	assert.NoErrorf(t, err, "an incomplete last line")
}
