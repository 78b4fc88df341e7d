package explore

// Unhealthy is unhealthy, for tests.
var Unhealthy = unhealthy

// FailureOf returns the file of an alarm.
func FailureOf(a Alarm) *Failure { return a.failure() }
