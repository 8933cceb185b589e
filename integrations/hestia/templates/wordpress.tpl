{
    "hosts": "%domain_idn% %alias_idn%",
    "root": "%docroot%",
    "user": "%user%",
    "cache": "wordpress",
    "https": "auto",
    "logs": {
        "access": [
            { "path": "/var/log/%web_system%/domains/%domain%.log" },
            { "path": "/var/log/%web_system%/domains/%domain%.bytes", "format": "$body_bytes_sent" }
        ]
    }
}
