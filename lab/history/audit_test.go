package history_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/history"
)

func auditEvent(second int, verb, subresource string, code int, object string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":%q,"objectRef":{"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps","apiVersion":"v1","subresource":%q},`+
		`"responseStatus":{"code":%d},%s"stageTimestamp":"2026-11-23T10:00:%02d.000000Z"}`+"\n", verb, subresource,
		code, object, second)
}

func answer(revision int, more string) string {
	return fmt.Sprintf(`"responseObject":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","resourceVersion":"%d"%s}},`, revision, more)
}

const deleted = `"responseObject":{"kind":"Status","apiVersion":"v1","status":"Success"},`

// importAudit returns the result of an import, and the versions of the Deployment web.
func importAudit(t *testing.T, events ...string) (got history.Imported, versions []string) {
	t.Helper()
	var log history.AuditLog
	must(t, log.Read(strings.NewReader(strings.Join(events, ""))))
	var file bytes.Buffer
	w, err := history.NewWriter(&file)
	must(t, err)
	got, err = log.Write(w, false)
	must(t, err)
	for v := range read(t, file.Bytes()).Versions(history.Key{Resource: "deployments.apps", Namespace: "shop",
		Name: "web"}) {
		versions = append(versions, fmt.Sprint(v.Revision, v.Time.UTC().Format(" 05"),
			map[bool]string{true: " deleted"}[v.Deleted]))
	}
	return got, versions
}

// Requests that only try a write do not change the object.
func TestImportIgnoresDryRuns(t *testing.T) {
	dry := func(event string) string {
		return strings.Replace(event, `"verb"`,
			`"requestURI":"/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All&fieldManager=x","verb"`, 1)
	}
	inBody := strings.Replace(auditEvent(3, "delete", "", 200, deleted), `"verb"`,
		`"requestObject":{"kind":"DeleteOptions","dryRun":["All"]},"verb"`, 1)
	got, versions := importAudit(t,
		dry(auditEvent(1, "patch", "", 200, answer(9, ""))),
		auditEvent(2, "patch", "", 200, `"requestObject":[{"op":"test"}],`+answer(10, "")),
		inBody,
		dry(auditEvent(4, "delete", "", 200, deleted)),
		auditEvent(5, "patch", "", 200, answer(11, "")))
	if want := []string{"10 02", "11 05"}; !slices.Equal(versions, want) || got.Deletions != 0 {
		t.Errorf("%q, want %q; %+v", versions, want, got)
	}
}

// The response to the removal of the last finalizer has the revision of the version before it.
func TestImportOfRemovedFinalizer(t *testing.T) {
	_, versions := importAudit(t,
		auditEvent(1, "create", "", 201, answer(10, `,"finalizers":["a"]`)),
		auditEvent(2, "delete", "", 200, answer(11, `,"deletionTimestamp":"2026-11-23T10:00:02Z","finalizers":["a"]`)),
		auditEvent(3, "patch", "", 200, answer(11, `,"deletionTimestamp":"2026-11-23T10:00:02Z"`)))
	assert.Slice(t, versions, []string{"10 01", "11 02", "12 03 deleted"})
}

// The deletion of a collection takes time: objects are created again before the response, and
// others are deleted later.
func TestImportOfDeletedCollection(t *testing.T) {
	list := func(uid, more string) string {
		return `"responseObject":{"kind":"DeploymentList","items":[{"metadata":{"name":"web","namespace":"shop","resourceVersion":"10","uid":"` + uid + `"` + more + `}}]},`
	}
	for name, tt := range map[string]struct {
		events, want []string
	}{
		"created again": {[]string{
			auditEvent(1, "create", "", 201, answer(10, `,"uid":"a"`)),
			auditEvent(2, "create", "", 201, answer(20, `,"uid":"b"`)),
			auditEvent(3, "deletecollection", "", 200, list("a", "")),
			auditEvent(4, "patch", "", 200, answer(30, `,"uid":"b"`)),
		}, []string{"10 01", "19 02 deleted", "20 02", "30 04"}},
		"waits for a finalizer": {[]string{
			auditEvent(1, "create", "", 201, answer(10, `,"uid":"a","finalizers":["x"]`)),
			auditEvent(3, "deletecollection", "", 200, list("a", `,"finalizers":["x"]`)),
			auditEvent(4, "patch", "", 200, answer(30,
				`,"uid":"a","finalizers":["x"],"deletionTimestamp":"2026-11-23T10:00:03Z"`)),
		}, []string{"10 01", "30 04"}},
		"ends later": {[]string{
			auditEvent(1, "create", "", 201, answer(10, `,"uid":"a"`)),
			auditEvent(3, "deletecollection", "", 200, list("a", "")),
			auditEvent(4, "patch", "", 200, answer(30,
				`,"uid":"a","deletionTimestamp":"2026-11-23T10:00:33Z","deletionGracePeriodSeconds":30`)),
			auditEvent(5, "delete", "", 200, `"responseObject":{"kind":"Status","status":"Success","details":{"uid":"a"}},`),
		}, []string{"10 01", "30 04", "31 05 deleted"}},
	} {
		_, versions := importAudit(t, tt.events...)
		assert.Slicef(t, versions, tt.want, "%s", name)
	}
}

// Clients ask for tables, as kubectl get does, or for the metadata only. The log then has these,
// and not the object.
func TestImportOfOtherForms(t *testing.T) {
	form := func(kind, object string) string {
		return `"responseObject":{"apiVersion":"meta.k8s.io/v1","kind":"` + kind + `",` + object + `},`
	}
	partial := func(revision int, more string) string {
		return form("PartialObjectMetadata", fmt.Sprintf(
			`"metadata":{"name":"web","namespace":"shop","resourceVersion":"%d"%s}`, revision, more))
	}
	events := []string{
		auditEvent(1, "create", "", 201, answer(10, `,"finalizers":["a"]`)),
		auditEvent(2, "get", "", 200, form("Table", `"metadata":{"resourceVersion":"10"},"rows":[]`)),
		auditEvent(3, "patch", "", 200, partial(20, `,"finalizers":["a","b"]`)),
		auditEvent(4, "get", "", 200, partial(20, `,"finalizers":["a","b"]`)),
		auditEvent(5, "delete", "", 200, answer(30, `,"deletionTimestamp":"2026-11-23T10:00:05Z","finalizers":["a"]`)),
		auditEvent(6, "patch", "", 200, partial(30, `,"deletionTimestamp":"2026-11-23T10:00:05Z"`)),
	}
	got, versions := importAudit(t, events...)
	assert.Slice(t, versions, []string{"10 01", "30 05", "31 06 deleted"})
	assert.Equal(t, got, (history.Imported{Versions: 2, Deletions: 1, WithoutObject: 1}))
}

func TestImportAuditLog(t *testing.T) {
	events := []string{
		auditEvent(1, "create", "", 201, answer(10, "")),
		auditEvent(3, "patch", "", 200, answer(30, "")),
		// logged late, because the requests ran at the same time
		auditEvent(2, "update", "status", 200, answer(20, "")),
		auditEvent(4, "patch", "", 409, `"responseObject":{"kind":"Status"},`),
		auditEvent(4, "get", "", 200, answer(30, "")),
		auditEvent(4, "patch", "scale", 200, `"responseObject":{"kind":"Scale","metadata":{"name":"web","resourceVersion":"35"}},`),
		auditEvent(5, "get", "", 200, answer(35, "")),
		auditEvent(5, "update", "", 200, ""), // at the level Metadata
		auditEvent(6, "delete", "", 200, answer(40, `,"deletionTimestamp":"2026-11-23T10:00:06Z","finalizers":["a"]`)),
		auditEvent(7, "patch", "", 200, answer(50, `,"deletionTimestamp":"2026-11-23T10:00:06Z"`)),
		auditEvent(8, "create", "", 201, answer(60, "")),
		auditEvent(9, "delete", "", 200, deleted),
		auditEvent(10, "list", "", 200, `"responseObject":{"kind":"DeploymentList","items":[]},`),
	}
	var log history.AuditLog
	must(t, log.Read(strings.NewReader(strings.Join(events, ""))))
	var file bytes.Buffer
	w, err := history.NewWriter(&file)
	must(t, err)
	got, err := log.Write(w, false)
	must(t, err)
	assert.Equal(t, got, (history.Imported{Versions: 6, Deletions: 2, WithoutObject: 1}))
	h := read(t, file.Bytes())
	var versions []string
	for v := range h.Versions(history.Key{Resource: "deployments.apps", Namespace: "shop", Name: "web"}) {
		versions = append(versions, fmt.Sprint(v.Revision, v.Time.UTC().Format(" 05"),
			map[bool]string{true: " deleted"}[v.Deleted]))
	}
	want := []string{"10 01", "20 02", "30 03", "35 05", "40 06", "50 07 deleted", "60 08",
		"61 09 deleted"}
	assert.Slice(t, versions, want)
	if len(h.Find("deployment")) != 1 {
		t.Error(h.Resources())
	}
}

func TestImportOfOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		"not JSON":       "event 1 of the audit log: invalid character",
		`{"kind":"Pod"}`: "event 1 of the audit log: not an event of audit.k8s.io",
		auditEvent(1, "create", "", 201, answer(10, "")) + `{"kind`: "event 2 of the audit log: unexpected EOF",
	} {
		var log history.AuditLog
		if err := log.Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
