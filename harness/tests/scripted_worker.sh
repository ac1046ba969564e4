#!/bin/sh
# A worker for the harness's tests: plays the script that the test wrote.
. "$SCRIPTED_WORKER"
