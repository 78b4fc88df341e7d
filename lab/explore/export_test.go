package explore

// Unhealthy is unhealthy, for tests.
var Unhealthy = unhealthy
