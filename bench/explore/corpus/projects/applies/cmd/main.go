// Command main is the operator applies of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("applies") }
