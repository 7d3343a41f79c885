module outrigger.test/s3

go 1.26.0

require github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c
