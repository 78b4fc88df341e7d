package history_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kelson.dev/lab/history"
)

func auditEvent(second int, verb, subresource string, code int, object string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":%q,"objectRef":{"resource":"deployments","namespace":"shop","name":"web","apiGroup":"apps","apiVersion":"v1","subresource":%q},`+
		`"responseStatus":{"code":%d},%s"stageTimestamp":"2026-11-23T10:00:%02d.000000Z"}`+"\n", verb, subresource, code, object, second)
}

func answer(revision int, more string) string {
	return fmt.Sprintf(`"responseObject":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","resourceVersion":"%d"%s}},`, revision, more)
}

const deleted = `"responseObject":{"kind":"Status","apiVersion":"v1","status":"Success"},`

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
	if want := (history.Imported{Versions: 6, Deletions: 2, WithoutObject: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	h := read(t, file.Bytes())
	var versions []string
	for v := range h.Versions(history.Key{Resource: "deployments.apps", Namespace: "shop", Name: "web"}) {
		versions = append(versions, fmt.Sprint(v.Revision, v.Time.UTC().Format(" 05"), map[bool]string{true: " deleted"}[v.Deleted]))
	}
	if want := []string{"10 01", "20 02", "30 03", "35 05", "40 06", "50 07 deleted", "60 08", "61 09 deleted"}; !slices.Equal(versions, want) {
		t.Errorf("%q, want %q", versions, want)
	}
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
